package replica

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// writes makes the writes of a Writer, in turn to all objects of all resources, and notes
// what every informer has to receive.
type writes struct {
	resources []watchedResource
	objects   int // of each resource
	made      []digest
}

// digest says which events there were: how many, and the sum of their stamps. Events that
// are missed or come twice change it.
type digest struct {
	events atomic.Int64
	stamps atomic.Uint64
}

func (d *digest) add(stamp int64) {
	d.events.Add(1)
	d.stamps.Add(uint64(stamp))
}

func (d *digest) reset() {
	d.events.Store(0)
	d.stamps.Store(0)
}

func newWrites(objects int) *writes {
	resources := watchedResources()
	return &writes{resources: resources, objects: objects, made: make([]digest, len(resources))}
}

// change is a testbed.ChangeFunc.
func (w *writes) change(i int, at time.Time) testbed.Change {
	resource := i % len(w.resources)
	w.made[resource].add(at.UnixNano())
	return w.resources[resource].change(i/len(w.resources)%w.objects, at)
}

// reset forgets the writes so far. None may be under way.
func (w *writes) reset() {
	for i := range w.made {
		w.made[i].reset()
	}
}

// expected is how many events a client receives, which has an informer of each resource.
func (w *writes) expected() (events int64) {
	for i := range w.made {
		events += w.made[i].events.Load()
	}
	return events
}

// account is the service account of the pods, and that with whose token trees are read.
const account = "default"

// createObjects creates what is watched. Pods need a service account, which a controller
// makes in a cluster.
func (w *writes) createObjects(ctx context.Context, writer *testbed.Writer) error {
	if err := writer.CreateAdministrator(ctx, namespace, account); err != nil {
		return err
	}
	return writer.Each(ctx, testbed.Turns(len(w.resources)*w.objects), func(ctx context.Context, c *testbed.Conn, i int) error {
		creation := w.resources[i%len(w.resources)].creation(i/len(w.resources), time.Now())
		return writer.Target.Write(ctx, c, creation, http.StatusCreated)
	})
}
