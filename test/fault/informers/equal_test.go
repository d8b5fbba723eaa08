package informers

import (
	"testing"
	"time"
)

// TestInformersStayEqual runs informers for all kinds of objects and all forms.
// Objects are written while the server and etcd restart. In each pause of the
// writes, every informer's store must become equal to the server's state.
//
// A second server over the same etcd accepts the writes and shows the state. So
// changes happen while the informers' server is down.
func TestInformersStayEqual(t *testing.T) {
	size := choose(t,
		scale{informers: 40, churn: 6 * time.Second, faults: []fault{killed}, names: 4},
		scale{informers: 500, churn: 5 * time.Minute, faults: []fault{terminated, killed, etcdTerminated, terminated}, names: 20})
	cl := newCluster(t)
	client := cl.startSecond().dynamic()
	c := newChurn(client, size.names)
	c.fill(t)
	f := cl.start(specs(size.informers, func(spec) bool { return true }))
	mirrors := f.mirrors()
	t.Logf("%d informers, first equal after %v: %s", size.informers, cl.converge(client, mirrors), f.calls())

	first := f.calls()
	cl.underFaults(c, size, func(phase string) {
		took := cl.converge(client, mirrors)
		now := f.calls()
		t.Logf("%s: equal %v after the last write; since the start: %s", phase, took.Round(time.Millisecond), now.minus(first))
	})
	since := f.calls().minus(first)
	t.Logf("%d relists of %d informers over %d faults", since.loaded, size.informers, len(size.faults))
	if since.gone > 0 {
		t.Errorf("informers got 410 %d times", since.gone)
	}
	f.checkForward(t)
}

// underFaults runs one phase for each fault: writes with the fault in the
// middle, then a pause in which it calls rested.
func (cl *cluster) underFaults(c *churn, size scale, rested func(phase string)) {
	cl.t.Helper()
	half := size.churn / time.Duration(2*len(size.faults))
	for _, fault := range size.faults {
		written, failed := c.written.Load(), c.failed.Load()
		stop := c.start(cl.t)
		cl.t.Cleanup(stop)
		before, began := usageOf(cl.server.PID()), time.Now()
		after(cl.t, half)
		cl.t.Logf("%d writes in %v; the server used %s", c.written.Load()-written, half, usageOf(cl.server.PID()).since(before))
		broken := time.Now()
		fault.do(cl)
		cl.t.Logf("%s: ready again after %v", fault.name, time.Since(broken).Round(time.Millisecond))
		before = usageOf(cl.server.PID())
		after(cl.t, half)
		stop()
		cl.t.Logf("%d writes in %v, %d failed; since it is ready the server used %s", c.written.Load()-written,
			time.Since(began).Round(time.Second), c.failed.Load()-failed, usageOf(cl.server.PID()).since(before))
		rested(fault.name)
	}
}
