package verify

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// silence is a server that has not shown the last write of a resource within Config.Settle.
type silence struct {
	server *server
	write  *Write
	// err says why a read did not show it. Nil stands for a watch.
	err error
}

// settle writes one more object of each resource, and waits until each server has told its
// watches of it and has answered a read, but no longer than Config.Settle.
//
// A server may answer 504 or be silent for as long as it cannot know what the others have
// written. Where writes are acknowledged, it can. If no server acknowledges the last write, the
// cluster is away as far as clients know, and that breaks no promise.
func (r *run) settle(ctx context.Context, followers []*follower) {
	goals := map[string]*Write{}
	for i := range r.fixture.resources {
		name := r.fixture.resources[i].name
		if goals[name], r.incomplete = r.lastWrite(ctx, name); r.incomplete != nil {
			return
		}
	}
	timeout, stop := context.WithTimeout(ctx, r.cfg.Settle)
	defer stop()
	isTold, errs := make([]bool, len(followers)), make([]error, len(followers))
	var waiting sync.WaitGroup
	for i, f := range followers {
		f.last <- goals[f.resource].Revision
		waiting.Go(func() {
			select {
			case <-f.passed:
				isTold[i] = true
			case <-timeout.Done():
			}
		})
		waiting.Go(func() { errs[i] = r.finalRead(timeout, f.server, f.resource) })
	}
	waiting.Wait()
	if ctx.Err() != nil {
		return
	}
	for i, f := range followers {
		r.awaited += 2
		if !isTold[i] {
			r.silent = append(r.silent, silence{f.server, goals[f.resource], nil})
		}
		if errs[i] != nil {
			r.silent = append(r.silent, silence{f.server, goals[f.resource], errs[i]})
		}
	}
}

// lastWrite creates an object, at one server after the other until one has done it, but no
// longer than Config.Settle.
func (r *run) lastWrite(ctx context.Context, resource string) (rec *Write, err error) {
	ctx, stop := context.WithTimeout(ctx, r.cfg.Settle)
	defer stop()
	w := &writer{run: r, id: "last", rand: r.random(3000), believed: map[objectKey]string{}}
	tries := 0
	err = repeat(ctx, func() (bool, error) {
		name := fmt.Sprintf("last-%d", tries)
		tries++
		rec = &Write{Verb: create, Key: objectKey{resource, watchcheck.Key{Namespace: r.fixture.namespace, Name: name}}, Half: halves[0], Value: name + "-" + resource}
		w.send(ctx, rec, "")
		r.record.addWrite(rec)
		if rec.done() {
			return false, nil
		}
		return true, fmt.Errorf("the last write, of %s, failed, and servers were not waited for: %s", rec.Key, rec.Err)
	})
	return rec, err
}

// finalRead lists everything at a server until it succeeds. The error tells the last answer
// otherwise. What a list shows is checked with all other reads.
func (r *run) finalRead(ctx context.Context, s *server, resource string) (err error) {
	final := &reader{run: r, id: "final", rand: r.random(4000), servers: []*server{s}}
	return repeat(ctx, func() (bool, error) {
		got := final.read(ctx, Request{Verb: "list", Resource: resource, Class: unset, Select: selectAll, Form: formJSON})
		if got.ok() {
			return false, nil
		}
		if err == nil || ctx.Err() == nil {
			err = fmt.Errorf("status %d: %s", got.Status, got.Err)
		}
		return got.Status == 0 || comesLater(got.Status), err
	})
}

// settled checks that no server was silent.
func (c *checker) settled() {
	c.of(Shown).Checked = c.run.awaited
	for _, s := range c.run.silent {
		step, resource := s.write.step(c.run), s.write.Key.resource
		if s.err == nil {
			c.found(Shown, s.server.index, []Step{step.instead("told to a watch at %s", s.server.base)}, "no watch of %s was told of revision %d within %s", resource, s.write.Revision, c.run.cfg.Settle)
			continue
		}
		c.found(Shown, s.server.index, []Step{step.instead("shown by a list at %s", s.server.base)}, "no list of %s was answered within %s of revision %d: %v", resource, c.run.cfg.Settle, s.write.Revision, s.err)
	}
}
