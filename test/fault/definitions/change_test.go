package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/test/support/changingupstream"
)

const group = "changes.example.com"

// definition is a CustomResourceDefinition that a script changes.
type definition struct {
	changingupstream.Names
	webhook *changingupstream.Webhook
	// converts says that the script has a webhook convert. Then objects may be unreadable, as
	// the webhook fails at times.
	converts bool

	mu struct {
		sync.Mutex
		// shape is the state that was written last.
		shape changingupstream.Shape
		// deleted says that the definition is being deleted, to get that shape.
		deleted bool
	}
}

func (d *definition) setShape(s changingupstream.Shape, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.shape, d.mu.deleted = s, deleted
}

func (d *definition) state() (s changingupstream.Shape, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.shape, d.mu.deleted
}

func named(plural, kind string) changingupstream.Names {
	return changingupstream.Names{Group: group, Plural: plural, Kind: kind}
}

func newDefinitions(w *changingupstream.Webhook) []*definition {
	all := []*definition{
		{Names: named("minis", "Mini")},
		{Names: named("midis", "Midi")},
		{Names: named("maxis", "Maxi"), webhook: w, converts: true},
	}
	for _, d := range all {
		d.mu.shape = changingupstream.Shape{Served1: true, Storage1: true, Status: true, Scale: true, Selectable: true}
	}
	return all
}

// served2 is a version that is always served, and never leaves.
const served2 = "v2"

// versions are those that requests ask for, as often as they do. v9 never exists.
var versions = []string{"v1", "v1", "v1", served2, served2, served2, served2, "v3", "v3", "v9"}

// create creates the definition.
func (d *definition) create(ctx context.Context, c *client) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := c.send(ctx, call{method: http.MethodPost, path: changingupstream.DefinitionsPath, content: "application/json", body: d.Object(d.mu.shape, "", d.webhook)})
	if a.err != nil || a.status != http.StatusCreated {
		return fmt.Errorf("create %s: status %d: %w: %.300s", d.Name(), a.status, a.err, a.body)
	}
	return nil
}

// served returns an error unless objects of the definition can be created and read in all
// versions that a shape serves.
func (d *definition) served(ctx context.Context, c *client, s changingupstream.Shape) error {
	objects := "/namespaces/default/" + d.Plural
	if s.ClusterScoped {
		objects = "/" + d.Plural
	}
	for version, want := range map[string]bool{"v1": s.Served1, served2: true, "v3": s.Has3 && s.Served3} {
		status := http.StatusNotFound
		if want {
			status = http.StatusOK
		}
		a := c.send(ctx, call{method: http.MethodGet, path: "/apis/" + group + "/" + version + objects})
		if a.status != status && s.Conversion != changingupstream.FailingConversion {
			return fmt.Errorf("list %s in %s: status %d, want %d: %v: %.300s", d.Plural, version, a.status, status, a.err, a.body)
		}
	}
	body := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"%s","metadata":{"generateName":"last-"},"spec":{"color":"blue"}}`, group, served2, d.Kind)
	a := c.send(ctx, call{method: http.MethodPost, path: "/apis/" + group + "/" + served2 + objects, content: "application/json", body: body})
	if a.status != http.StatusCreated && s.Conversion != changingupstream.FailingConversion {
		return fmt.Errorf("create one of %s: status %d: %v: %.300s", d.Plural, a.status, a.err, a.body)
	}
	return nil
}

// script changes one definition. Its choices depend on the seed alone, so both sides have the
// same script, and may be at different places of it.
type script struct {
	*definition
	random *rand.Rand
}

func newScript(d *definition, seed uint64, i int) *script {
	return &script{definition: d, random: rand.New(rand.NewPCG(seed, uint64(1000+i)))}
}

// run changes the definition until the context ends.
func (s *script) run(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		s.step(ctx, c)
		var pause time.Duration
		switch n := s.random.IntN(100); {
		case n < 60:
		case n < 90:
			pause = time.Duration(s.random.IntN(20)) * time.Millisecond
		case n < 97:
			pause = time.Duration(s.random.IntN(300)) * time.Millisecond
		default: // watches of a former state end, and caches become quiet
			pause = 1500 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// step makes one change.
func (s *script) step(ctx context.Context, c *client) {
	next, _ := s.state()
	next.Generation++
	anew := s.random.IntN(60) == 0
	for range 1 + s.random.IntN(2) {
		next.Change(s.random, s.converts)
	}
	if anew {
		// The objects of a definition cannot be deleted while its webhook fails.
		next.Conversion = ""
		s.update(ctx, c, next)
		next.ClusterScoped = s.random.IntN(2) == 0
		s.makeAnew(ctx, c, next)
		return
	}
	s.update(ctx, c, next)
}

// maxConflicts bounds how often an update is tried again, because the status was written.
const maxConflicts = 50

// update replaces the definition.
func (s *script) update(ctx context.Context, c *client, next changingupstream.Shape) {
	for range maxConflicts {
		a := c.send(ctx, call{method: http.MethodGet, path: s.Path()})
		var read struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(a.body, &read) != nil || a.status != http.StatusOK {
			c.side.tally.violate("definition cannot be read", fmt.Sprintf("status %d: %v: %.300s", a.status, a.err, a.body))
			return
		}
		a = c.send(ctx, call{method: http.MethodPut, path: s.Path(), content: "application/json", body: s.Object(next, read.Metadata.ResourceVersion, s.webhook)})
		if a.status == http.StatusConflict {
			continue
		}
		s.note(c, "update", a, http.StatusOK, next)
		return
	}
	c.side.tally.violate("definition cannot be updated", "too many conflicts")
}

// note notes a change that was written.
func (s *script) note(c *client, what string, a *answer, want int, next changingupstream.Shape) {
	c.side.tally.count(what+" definition", "json", fmt.Sprint(a.status))
	if a.status != want {
		c.side.tally.violate("definition cannot be changed", fmt.Sprintf("%s: status %d: %v: %.300s", what, a.status, a.err, a.body))
		return
	}
	s.setShape(next, false)
}

// makeAnew deletes the definition with all its objects, and creates it with another shape. If
// the context ends before the definition is gone, it stays away.
func (s *script) makeAnew(ctx context.Context, c *client, next changingupstream.Shape) {
	for {
		a := c.send(ctx, call{method: http.MethodDelete, path: s.Path()})
		if a.status == http.StatusNotFound {
			break
		}
		s.setShape(next, true)
		c.side.tally.count("delete definition", "json", fmt.Sprint(a.status))
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.restore(ctx, c, next)
}

// repair lets objects be read again, if the script has ended with a webhook that fails.
func (d *definition) repair(ctx context.Context, c *client) {
	next, deleted := d.state()
	if deleted || next.Conversion != changingupstream.FailingConversion {
		return
	}
	next.Conversion = ""
	next.Generation++
	(&script{definition: d}).update(ctx, c, next)
}

// restore creates the definition once it is gone.
func (s *script) restore(ctx context.Context, c *client, next changingupstream.Shape) {
	a := c.send(ctx, call{method: http.MethodPost, path: changingupstream.DefinitionsPath, content: "application/json", body: s.Object(next, "", s.webhook)})
	s.note(c, "create", a, http.StatusCreated, next)
}
