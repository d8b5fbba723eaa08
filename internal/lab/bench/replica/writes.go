package replica

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// writes makes the writes of a Writer, round-robin to all objects of all resources. It records what every
// informer must receive.
type writes struct {
	resources []watchedResource
	objects   int      // of each resource
	written   []digest // of each resource, since the last reset
}

// digest identifies a set of events by their number and the sum of their stamps. An event that is
// missing or arrives twice changes it. It is safe for concurrent use.
type digest struct {
	events atomic.Int64
	stamps atomic.Uint64
}

// add adds an event by its stamp.
func (d *digest) add(stamp int64) {
	d.events.Add(1)
	d.stamps.Add(uint64(stamp))
}

func (d *digest) reset() {
	d.events.Store(0)
	d.stamps.Store(0)
}

// newWrites returns the writes to a number of objects of each resource.
func newWrites(objects int) *writes {
	resources := watchedResources()
	return &writes{resources: resources, objects: objects, written: make([]digest, len(resources))}
}

// change implements testbed.ChangeFunc.
func (w *writes) change(i int, at time.Time) testbed.Change {
	resource := i % len(w.resources)
	w.written[resource].add(at.UnixNano())
	return w.resources[resource].change(i/len(w.resources)%w.objects, at)
}

// reset forgets the writes that were made. No write may be in flight.
func (w *writes) reset() {
	for i := range w.written {
		w.written[i].reset()
	}
}

// expectedEvents returns the number of events that a client must receive, with an informer of each
// resource.
func (w *writes) expectedEvents() (events int64) {
	for i := range w.written {
		events += w.written[i].events.Load()
	}
	return events
}

// account is the service account of the pods. Clients of trees use its token.
const account = "default"

// createObjects creates the objects that are watched. It also creates the service account that pods
// need, which a controller makes in a cluster.
func (w *writes) createObjects(ctx context.Context, writer *testbed.Writer) error {
	if err := writer.CreateAdministrator(ctx, namespace, account); err != nil {
		return err
	}
	return writer.Each(ctx, testbed.Turns(len(w.resources)*w.objects), func(ctx context.Context, c *testbed.Conn, i int) error {
		creation := w.resources[i%len(w.resources)].creation(i/len(w.resources), time.Now())
		return writer.Target.Write(ctx, c, creation, http.StatusCreated)
	})
}
