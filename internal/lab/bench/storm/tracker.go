package storm

import (
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// informer is the state of one informer.
type informer struct {
	synced   time.Time // when it was synced in this storm; zero: it is not
	watching bool      // it has all objects and an open watch
	listing  bool      // it has started to list since it was last synced
}

// tracker has the states of all informers of a fleet. It implements hollow.InformerObserver, and is
// safe for concurrent use.
//
// An informer that loses its watch later than holdTime and resumes stays synced. Watches end by
// themselves after some minutes, so in a long storm some always have just ended. An informer that
// has to list again is no longer synced.
type tracker struct {
	clock clock.PassiveClock
	mu    struct {
		sync.Mutex
		started   bool // all nodes have started
		informers map[uint64]*informer
		synced    int       // number of informers that are synced
		watching  int       // number of informers that have an open watch
		newest    time.Time // the latest time at which an informer was synced
		// The counts below start at the last reset.
		lists    int // LISTs that were followed by a watch
		refused  int // requests answered with 429
		failures hollow.ErrorCounts
	}
}

// newTracker returns a tracker without informers.
func newTracker(c clock.PassiveClock) *tracker {
	t := &tracker{clock: c}
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
	if i.watching {
		i.watching = false
		t.mu.watching--
	}
	now := t.clock.Now()
	switch state {
	case hollow.InformerListing:
		i.listing = true
		t.unsyncLocked(i)
	case hollow.InformerSynced:
		i.watching = true
		t.mu.watching++
		if i.synced.IsZero() {
			i.synced, t.mu.newest = now, now
			t.mu.synced++
		}
		if i.listing {
			i.listing = false
			t.mu.lists++
		}
	case hollow.InformerLost:
		if now.Sub(i.synced) < holdTime {
			t.unsyncLocked(i)
		}
	case hollow.InformerEnded:
		t.unsyncLocked(i)
		delete(t.mu.informers, number)
	}
}

func (t *tracker) unsyncLocked(i *informer) {
	if !i.synced.IsZero() {
		i.synced = time.Time{}
		t.mu.synced--
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

// reset begins a storm: no informer is synced, and the counts of lists, refusals and failures are
// zero.
func (t *tracker) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range t.mu.informers {
		t.unsyncLocked(i)
	}
	t.mu.lists, t.mu.refused = 0, 0
	clear(t.mu.failures)
}

// counts returns the number of synced informers, and the number of all informers.
func (t *tracker) counts() (synced, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.synced, len(t.mu.informers)
}

// watchCount returns the number of informers that have an open watch.
func (t *tracker) watchCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.watching
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
