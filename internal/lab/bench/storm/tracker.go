package storm

import (
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// informer is the state of one informer.
type informer struct {
	synced  time.Time // when it was synced; zero: it is not
	listing bool      // it has started to list since it was last synced
}

// tracker has the states of all informers of a fleet. It implements hollow.InformerObserver, and is
// safe for concurrent use.
type tracker struct {
	mu struct {
		sync.Mutex
		started   bool // all nodes have started
		informers map[uint64]*informer
		synced    int       // number of informers that are synced now
		newest    time.Time // the latest time at which an informer was synced
		// The counts below start at the last reset.
		lists    int // LISTs that were followed by a watch
		refused  int // requests answered with 429
		failures hollow.ErrorCounts
	}
}

// newTracker returns a tracker without informers.
func newTracker() *tracker {
	t := &tracker{}
	t.mu.informers = map[uint64]*informer{}
	return t
}

// Started implements hollow.InformerObserver.
func (t *tracker) Started() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.started = true
}

// Informer implements hollow.InformerObserver.
func (t *tracker) Informer(number uint64, state hollow.InformerState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.mu.informers[number]
	if i == nil {
		i = &informer{}
		t.mu.informers[number] = i
	}
	if !i.synced.IsZero() {
		i.synced = time.Time{}
		t.mu.synced--
	}
	switch state {
	case hollow.InformerListing:
		i.listing = true
	case hollow.InformerSynced:
		i.synced = time.Now()
		t.mu.newest = i.synced
		t.mu.synced++
		if i.listing {
			i.listing = false
			t.mu.lists++
		}
	case hollow.InformerEnded:
		delete(t.mu.informers, number)
	}
}

// maxKinds bounds the kinds of failures that are counted.
const maxKinds = 20

// Failed implements hollow.InformerObserver.
func (t *tracker) Failed(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if strings.HasPrefix(kind, "429 ") {
		t.mu.refused++
		return
	}
	t.mu.failures.Add(kind, maxKinds)
}

// reset sets the counts of lists, refusals and failures to zero.
func (t *tracker) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.lists, t.mu.refused = 0, 0
	clear(t.mu.failures)
}

// counts returns the number of synced informers, and the number of all informers.
func (t *tracker) counts() (synced, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.synced, len(t.mu.informers)
}

// allSyncedBy reports whether all informers were synced at a time, and still are.
func (t *tracker) allSyncedBy(deadline time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.started && t.mu.synced > 0 && t.mu.synced == len(t.mu.informers) && !t.mu.newest.After(deadline)
}

// add sets the results about informers and failures in res. Times count from start, when the server
// was started.
func (t *tracker) add(res *result, start time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var times []time.Duration
	for _, i := range t.mu.informers {
		times = append(times, i.synced.Sub(start))
	}
	res.setSynced(times)
	res.Lists, res.Refused = t.mu.lists, t.mu.refused
	res.Failures = t.mu.failures.Kinds()
}
