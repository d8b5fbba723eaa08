package verify

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// silence is one case in which a server did not show the last write of a resource within
// Config.Settle.
type silence struct {
	server *server
	write  *Write
	// err says why no LIST was answered. It is nil if the watch did not deliver the write.
	err error
}

// settle writes one more object of each resource. Then it waits until each server has delivered
// that write to its follower and has answered a LIST, but no longer than Config.Settle.
//
// A server may answer 504 or be silent while it cannot know what other servers have written.
// Where writes are acknowledged, it can know. If no server acknowledges the last write, the
// cluster is down as far as clients know, which is not a violation: settle sets incompleteErr.
func (r *run) settle(ctx context.Context, followers []*follower) {
	goals := map[string]*Write{}
	for i := range r.fixture.resources {
		name := r.fixture.resources[i].name
		if goals[name], r.incompleteErr = r.lastWrite(ctx, name); r.incompleteErr != nil {
			return
		}
	}
	timeout, stop := context.WithTimeout(ctx, r.cfg.Settle)
	defer stop()
	hasPassed := make([]bool, len(followers))
	errs := make([]error, len(followers))
	var waiting sync.WaitGroup
	for i, f := range followers {
		f.goal <- goals[f.resource].Revision
		waiting.Go(func() {
			select {
			case <-f.passed:
				hasPassed[i] = true
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
		r.shownCases += 2 // the watch and the LIST
		if !hasPassed[i] {
			r.silences = append(r.silences, silence{f.server, goals[f.resource], nil})
		}
		if errs[i] != nil {
			r.silences = append(r.silences, silence{f.server, goals[f.resource], errs[i]})
		}
	}
}

// lastWrite creates an object of a resource. It tries random servers until one acknowledges the
// write, but no longer than Config.Settle.
func (r *run) lastWrite(ctx context.Context, resource string) (rec *Write, err error) {
	ctx, stop := context.WithTimeout(ctx, r.cfg.Settle)
	defer stop()
	w := &writer{run: r, id: "last", rand: r.newRandom(3000), believed: map[objectKey]string{}}
	tries := 0
	err = repeat(ctx, func() (bool, error) {
		name := fmt.Sprintf("last-%d", tries)
		tries++
		key := objectKey{resource, watchcheck.Key{Namespace: r.fixture.namespace, Name: name}}
		rec = &Write{Verb: create, Key: key, Half: halves[0], Value: name + "-" + resource}
		w.send(ctx, rec, "")
		r.record.addWrite(rec)
		if rec.isAcknowledged() {
			return false, nil
		}
		return true, fmt.Errorf("the last write, of %s, failed; whether servers show it was not checked: %s", rec.Key, rec.Err)
	})
	return rec, err
}

// finalRead lists all objects of a resource at a server until that succeeds, the server gives an
// answer that will not change, or the context ends. The error has the last answer. The list itself
// is checked with all other reads.
func (r *run) finalRead(ctx context.Context, s *server, resource string) (err error) {
	final := &reader{run: r, id: "final", rand: r.newRandom(4000), servers: []*server{s}}
	return repeat(ctx, func() (bool, error) {
		got := final.read(ctx, Request{Verb: "list", Resource: resource, Class: versionUnset, Select: selectAll, Encoding: encodingJSON})
		if got.ok() {
			return false, nil
		}
		if err == nil || ctx.Err() == nil {
			err = fmt.Errorf("status %d: %s", got.Status, got.Err)
		}
		return got.Status == 0 || mayServeLater(got.Status), err
	})
}
