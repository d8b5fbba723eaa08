package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	group           = "changes.example.com"
)

// definition is a CustomResourceDefinition that a script changes.
type definition struct {
	plural, kind string
	webhook      *webhook
	// converts says that the script has a webhook convert. Then objects may be unreadable, as
	// the webhook fails at times.
	converts bool

	mu struct {
		sync.Mutex
		// shape is the state that was written last.
		shape shape
		// deleted says that the definition is being deleted, to get that shape.
		deleted bool
	}
}

func (d *definition) setShape(s shape, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.shape, d.mu.deleted = s, deleted
}

func (d *definition) state() (s shape, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.shape, d.mu.deleted
}

// shape is what a script changes of a definition.
type shape struct {
	ClusterScoped           bool
	ShortNames, Category    int
	Served1, Has3, Served3  bool
	Storage1                bool
	Schema                  int
	Required, Rule, Default bool
	// Conversion is the path of the webhook, "" for none.
	Conversion    string
	Columns       int
	Status, Scale bool
	Selectable    bool
	Deprecated    bool
	Generation    int
}

func newDefinitions(w *webhook) []*definition {
	all := []*definition{
		{plural: "minis", kind: "Mini"},
		{plural: "midis", kind: "Midi"},
		{plural: "maxis", kind: "Maxi", webhook: w, converts: true},
	}
	for _, d := range all {
		d.mu.shape = shape{Served1: true, Storage1: true, Status: true, Scale: true, Selectable: true}
	}
	return all
}

func (d *definition) name() string { return d.plural + "." + group }

func (d *definition) path() string { return definitionsPath + "/" + d.name() }

// served2 is a version that is always served, and never leaves.
const served2 = "v2"

// versions are those that requests ask for, as often as they do. v9 never exists.
var versions = []string{"v1", "v1", "v1", served2, served2, served2, served2, "v3", "v3", "v9"}

// object returns the definition as JSON.
func (d *definition) object(s shape, resourceVersion string) string {
	names := map[string]any{"plural": d.plural, "singular": d.plural[:len(d.plural)-1], "kind": d.kind, "listKind": d.kind + "List"}
	if s.ShortNames > 0 {
		names["shortNames"] = []string{fmt.Sprintf("%s%d", d.plural[:2], s.ShortNames)}
	}
	if s.Category > 0 {
		names["categories"] = []string{fmt.Sprintf("category%d", s.Category)}
	}
	v1, v2, v3 := d.version("v1", s), d.version(served2, s), d.version("v3", s)
	v1["served"], v1["storage"], v2["storage"] = s.Served1, s.Storage1, !s.Storage1
	all := []any{v1, v2}
	if s.Deprecated {
		v1["deprecated"] = true
	}
	if s.Has3 {
		v3["served"] = s.Served3
		all = append(all, v3)
	}
	scope := "Namespaced"
	if s.ClusterScoped {
		scope = "Cluster"
	}
	spec := map[string]any{"group": group, "scope": scope, "names": names, "versions": all, "conversion": map[string]any{"strategy": "None"}}
	if s.Conversion != "" {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []string{"v1"},
			"clientConfig":             map[string]any{"url": d.webhook.url + s.Conversion, "caBundle": d.webhook.ca},
		}}
	}
	metadata := map[string]any{"name": d.name(), "annotations": map[string]any{"generation": fmt.Sprint(s.Generation)}}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec,
	})
	return string(text)
}

func (d *definition) version(name string, s shape) map[string]any {
	color := map[string]any{"type": "string", "maxLength": 20}
	if s.Default {
		color["default"] = "green"
	}
	fields := map[string]any{
		"color": color, "replicas": map[string]any{"type": "integer"}, "selector": map[string]any{"type": "string"},
		fmt.Sprintf("extra%d", s.Schema): map[string]any{"type": "string"},
	}
	inside := map[string]any{"type": "object", "properties": fields}
	if s.Required {
		inside["required"] = []string{"color"}
	}
	if s.Rule {
		inside["x-kubernetes-validations"] = []any{map[string]any{"rule": "!has(self.replicas) || self.replicas < 100"}}
	}
	status := map[string]any{"type": "object", "properties": map[string]any{
		"replicas": map[string]any{"type": "integer"}, "selector": map[string]any{"type": "string"}, "phase": map[string]any{"type": "string"},
	}}
	v := map[string]any{
		"name": name, "served": true, "storage": false,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": inside, "status": status}}},
	}
	subresources := map[string]any{}
	if s.Status {
		subresources["status"] = map[string]any{}
	}
	if s.Scale {
		subresources["scale"] = map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}
	}
	v["subresources"] = subresources
	var columns []any
	for i := range s.Columns {
		columns = append(columns, map[string]any{"name": fmt.Sprintf("C%d", i), "type": "string", "jsonPath": ".spec.color"})
	}
	if columns != nil {
		v["additionalPrinterColumns"] = columns
	}
	if s.Selectable {
		v["selectableFields"] = []any{map[string]any{"jsonPath": ".spec.color"}}
	}
	return v
}

// create creates the definition.
func (d *definition) create(ctx context.Context, c *client) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := c.send(ctx, call{method: http.MethodPost, path: definitionsPath, content: "application/json", body: d.object(d.mu.shape, "")})
	if a.err != nil || a.status != http.StatusCreated {
		return fmt.Errorf("create %s: status %d: %w: %.300s", d.name(), a.status, a.err, a.body)
	}
	return nil
}

// served returns an error unless objects of the definition can be created and read in all
// versions that a shape serves.
func (d *definition) served(ctx context.Context, c *client, s shape) error {
	objects := "/namespaces/default/" + d.plural
	if s.ClusterScoped {
		objects = "/" + d.plural
	}
	for version, want := range map[string]bool{"v1": s.Served1, served2: true, "v3": s.Has3 && s.Served3} {
		status := http.StatusNotFound
		if want {
			status = http.StatusOK
		}
		a := c.send(ctx, call{method: http.MethodGet, path: "/apis/" + group + "/" + version + objects})
		if a.status != status && s.Conversion != failingConversion {
			return fmt.Errorf("list %s in %s: status %d, want %d: %v: %.300s", d.plural, version, a.status, status, a.err, a.body)
		}
	}
	body := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"%s","metadata":{"generateName":"last-"},"spec":{"color":"blue"}}`, group, served2, d.kind)
	a := c.send(ctx, call{method: http.MethodPost, path: "/apis/" + group + "/" + served2 + objects, content: "application/json", body: body})
	if a.status != http.StatusCreated && s.Conversion != failingConversion {
		return fmt.Errorf("create one of %s: status %d: %v: %.300s", d.plural, a.status, a.err, a.body)
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
		s.change(&next)
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

// change changes one property.
func (s *script) change(next *shape) {
	toggle := func(b *bool) { *b = !*b }
	// Most requests are to find their version.
	mostly := func(b *bool) { *b = !*b || s.random.IntN(3) > 0 }
	switch s.random.IntN(16) {
	case 0, 1, 2:
		next.ShortNames++
	case 3:
		next.Category++
	case 4:
		mostly(&next.Served1)
	case 5:
		mostly(&next.Has3)
	case 6:
		mostly(&next.Served3)
	case 7:
		toggle(&next.Storage1)
	case 8, 9:
		next.Schema++
	case 10:
		toggle([]*bool{&next.Required, &next.Rule, &next.Default}[s.random.IntN(3)])
	case 11:
		next.Columns = (next.Columns + 1) % 4
	case 12:
		toggle(&next.Status)
	case 13:
		toggle(&next.Scale)
	case 14:
		toggle([]*bool{&next.Selectable, &next.Deprecated}[s.random.IntN(2)])
	case 15:
		if paths := []string{"", workingConversion, workingConversion, failingConversion}; s.converts {
			next.Conversion = paths[s.random.IntN(len(paths))]
		} else {
			next.ShortNames++
		}
	}
}

// maxConflicts bounds how often an update is tried again, because the status was written.
const maxConflicts = 50

// update replaces the definition.
func (s *script) update(ctx context.Context, c *client, next shape) {
	for range maxConflicts {
		a := c.send(ctx, call{method: http.MethodGet, path: s.path()})
		var read struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(a.body, &read) != nil || a.status != http.StatusOK {
			c.side.tally.violate("definition cannot be read", fmt.Sprintf("status %d: %v: %.300s", a.status, a.err, a.body))
			return
		}
		a = c.send(ctx, call{method: http.MethodPut, path: s.path(), content: "application/json", body: s.object(next, read.Metadata.ResourceVersion)})
		if a.status == http.StatusConflict {
			continue
		}
		s.note(c, "update", a, http.StatusOK, next)
		return
	}
	c.side.tally.violate("definition cannot be updated", "too many conflicts")
}

// note notes a change that was written.
func (s *script) note(c *client, what string, a *answer, want int, next shape) {
	c.side.tally.count(what+" definition", "json", fmt.Sprint(a.status))
	if a.status != want {
		c.side.tally.violate("definition cannot be changed", fmt.Sprintf("%s: status %d: %v: %.300s", what, a.status, a.err, a.body))
		return
	}
	s.setShape(next, false)
}

// makeAnew deletes the definition with all its objects, and creates it with another shape. If
// the context ends before the definition is gone, it stays away.
func (s *script) makeAnew(ctx context.Context, c *client, next shape) {
	for {
		a := c.send(ctx, call{method: http.MethodDelete, path: s.path()})
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

// restore creates the definition once it is gone.
func (s *script) restore(ctx context.Context, c *client, next shape) {
	a := c.send(ctx, call{method: http.MethodPost, path: definitionsPath, content: "application/json", body: s.object(next, "")})
	s.note(c, "create", a, http.StatusCreated, next)
}
