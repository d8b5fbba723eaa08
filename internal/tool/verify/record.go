package verify

import (
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// record has all requests of a run and their answers. Clients add to it concurrently. An added
// request is not changed any more. Checks read the fields of mu without the lock, after all
// clients have ended.
type record struct {
	mu struct {
		sync.Mutex
		writes  []*Write
		reads   []*Read
		watches []*watchRecord
		// states counts the states of the read API that were seen, by Request.stateName.
		states map[string]int
	}
	// revision is the newest that any answer has shown.
	revision atomic.Int64
	// gaps counts the followers' watches that could not be resumed.
	gaps atomic.Int64
	// count has the numbers of requests and frames until now, for the progress.
	count struct{ writes, reads, watches, frames, unknown atomic.Int64 }
}

// watchRecord is a watch with its request and its times. watchcheck.Watch has neither.
type watchRecord struct {
	Operation
	Request
	watch watchcheck.Watch
	// isLate says that the first frame came just before the timeout of the watch, or later.
	isLate bool
	// isFollower says that a follower opened the watch. The scorecard does not count it.
	isFollower bool
}

// newRecord returns an empty record.
func newRecord() *record {
	r := &record{}
	r.mu.states = map[string]int{}
	return r
}

func (r *record) addWrite(w *Write) {
	r.count.writes.Add(1)
	if w.hasUnknownOutcome() {
		r.count.unknown.Add(1)
	}
	r.observe(w.Revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.writes = append(r.mu.writes, w)
}

func (r *record) addRead(read *Read, outcome string) {
	r.count.reads.Add(1)
	r.observe(read.Revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.reads = append(r.mu.reads, read)
	r.mu.states[read.stateName(outcome)]++
}

func (r *record) addWatch(w *watchRecord, outcome string) {
	r.count.watches.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.watches = append(r.mu.watches, w)
	if !w.isFollower {
		r.mu.states[w.stateName(outcome)]++
	}
}

// observe raises the newest revision that any answer has shown.
func (r *record) observe(revision int64) {
	for {
		newest := r.revision.Load()
		if revision <= newest || r.revision.CompareAndSwap(newest, revision) {
			return
		}
	}
}

// newestRevision returns the newest revision that any answer has shown, and at least 1.
func (r *record) newestRevision() int64 { return max(r.revision.Load(), 1) }
