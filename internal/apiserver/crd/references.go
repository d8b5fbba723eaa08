package crd

import (
	"math"
	"sync/atomic"
)

// references counts the requests that use a servedDefinition. After close it hands out
// no more references, and drained is closed as soon as the last one is released.
//
// One word holds both the count and whether it is closed. So no request can take a reference
// between the last look at the count and the end of the storages. A request pays for one
// compare-and-swap and one addition. A sync.WaitGroup does not allow Add to race with Wait,
// and Kubernetes' SafeWaitGroup takes a lock for each request.
type references struct {
	// count is the number of references, plus closedReferences after close.
	count   atomic.Int64
	drained chan struct{}
}

// closedReferences keeps the count negative, whatever number of references is added.
const closedReferences = math.MinInt64

func newReferences() *references { return &references{drained: make(chan struct{})} }

// acquire takes a reference. It returns false, and takes none, after close.
func (r *references) acquire() bool {
	for n := r.count.Load(); n >= 0; n = r.count.Load() {
		if r.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release gives back a reference that acquire took.
func (r *references) release() {
	if r.count.Add(-1) == closedReferences {
		close(r.drained)
	}
}

// close ends the handing out of references. It must be called once at most.
func (r *references) close() {
	if r.count.Add(closedReferences) == closedReferences {
		close(r.drained)
	}
}

func (r *references) closed() bool { return r.count.Load() < 0 }

// number returns how many references there are now.
func (r *references) number() int64 {
	n := r.count.Load()
	if n < 0 {
		n -= closedReferences
	}
	return n
}

// held reports whether there are references now.
func (r *references) held() bool { return r.number() != 0 }
