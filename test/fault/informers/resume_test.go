package informers

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestRollingRestartResumes restarts a server under watches while another
// server over the same etcd accepts writes. All watches must resume where they
// were. They must deliver all changes, each event once and in order, and none
// may have to list again.
//
// The test uses plain watches. Informers list again for reasons of their own:
// if a connection breaks in a handshake, or if a new watch ends without an
// event.
func TestRollingRestartResumes(t *testing.T) {
	size := choose(t,
		scale{informers: 200, churn: 6 * time.Second, faults: []fault{killed}, names: 4},
		scale{informers: 2000, churn: time.Minute, faults: []fault{terminated, killed}, names: 10})
	cl := newCluster(t)
	writing := cl.startSecond().dynamic()
	c := newChurn(writing, size.names)
	c.fill(t)
	// Only specs with a few objects each, to limit the memory of this process.
	watches := cl.follow(specs(size.informers, func(s spec) bool { return len(s.namespaces) > 0 && s.selection != selection{} }))
	mirrors := watches.mirrors()
	t.Logf("%d watches, first equal after %v", size.informers, cl.converge(writing, mirrors))

	before := watches.calls()
	cl.underFaults(c, size, func(phase string) {
		cl.eventually(func(context.Context) error {
			if n := watches.calls().minus(before).resumed; n < int64(size.informers) {
				return fmt.Errorf("%d of %d watches were resumed", n, size.informers)
			}
			return nil
		})
		watches.checkEvents(t)
		if gone := watches.calls().minus(before).gone; gone > 0 {
			t.Fatalf("%s: %d of %d watches ended with 410", phase, gone, size.informers)
		}
		took := cl.converge(writing, mirrors)
		watches.checkEvents(t)
		since := watches.calls().minus(before)
		before = watches.calls()
		t.Logf("%s: equal %v after the last write: %s", phase, took.Round(time.Millisecond), since)
		if since.lists > 0 || since.watchLists > 0 || since.gone > 0 {
			t.Errorf("%s: want no list, watch-list or 410: %s", phase, since)
		}
	})
}
