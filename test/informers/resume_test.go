package informers

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestRollingRestartResumes restarts a server under watches while another one
// over the same etcd takes writes: all go on from where they were with all that
// happened, each event once and in order, and nobody is told to list again.
//
// These are watches and not informers, since some of those list again whatever
// the server does: when a connection breaks in a handshake, or a watch that has
// just begun ends without an event.
func TestRollingRestartResumes(t *testing.T) {
	size := choose(t,
		scale{informers: 200, churn: 6 * time.Second, faults: []fault{killed}, names: 4},
		scale{informers: 2000, churn: time.Minute, faults: []fault{terminated, killed}, names: 10})
	w := newWorld(t)
	writing := w.another().dynamic()
	c := newChurn(writing, size.names)
	c.fill(t)
	// Those with a few objects each, for the memory of this process.
	watches := w.follow(specs(size.informers, func(s spec) bool { return len(s.namespaces) > 0 && s.selection != selection{} }))
	mirrors := watches.mirrors()
	t.Logf("%d watches, first equal after %v", size.informers, w.converge(writing, mirrors))

	before := watches.calls()
	w.underFaults(c, size, func(phase string) {
		w.eventually(func(context.Context) error {
			if n := watches.calls().minus(before).resumed; n < int64(size.informers) {
				return fmt.Errorf("%d of %d watches began again", n, size.informers)
			}
			return nil
		})
		watches.onlyRight(t)
		if gone := watches.calls().minus(before).gone; gone > 0 {
			t.Fatalf("%s: %d of %d watches ended with 410", phase, gone, size.informers)
		}
		took := w.converge(writing, mirrors)
		watches.onlyRight(t)
		since := watches.calls().minus(before)
		before = watches.calls()
		t.Logf("%s: equal %v after the last write: %s", phase, took.Round(time.Millisecond), since)
		if since.lists > 0 || since.watchLists > 0 || since.gone > 0 {
			t.Errorf("%s: want no list, watch-list or 410: %s", phase, since)
		}
	})
}
