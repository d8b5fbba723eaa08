package verify

import (
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// record is the history of a run. It is safe for concurrent use.
type record struct {
	mu struct {
		sync.Mutex
		writes  []*Write
		reads   []*Read
		watches []*watchRecord
		states  map[string]int
	}
	// revision is the newest that any answer has shown.
	revision atomic.Int64
	// gaps counts the followers' watches that could not be resumed.
	gaps atomic.Int64
	// count are of everything so far, for the progress.
	count struct{ writes, reads, watches, events, unknown atomic.Int64 }
}

// watchRecord is a watch with what watchcheck.Watch does not say.
type watchRecord struct {
	Operation
	Request
	watch watchcheck.Watch
	// late says that the watch told nothing until its time was nearly over.
	late bool
	// follows says that the watch is one of those that follow all objects of a resource from
	// the beginning to the end.
	follows bool
}

func newRecord() *record {
	r := &record{}
	r.mu.states = map[string]int{}
	return r
}

func (r *record) addWrite(w *Write) {
	r.count.writes.Add(1)
	if w.unknown() {
		r.count.unknown.Add(1)
	}
	r.saw(w.Revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.writes = append(r.mu.writes, w)
}

func (r *record) addRead(read *Read, outcome string) {
	r.count.reads.Add(1)
	r.saw(read.Revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.reads = append(r.mu.reads, read)
	r.mu.states[read.state(outcome)]++
}

func (r *record) addWatch(w *watchRecord, outcome string) {
	r.count.watches.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.watches = append(r.mu.watches, w)
	if !w.follows {
		r.mu.states[w.state(outcome)]++
	}
}

func (r *record) saw(revision int64) {
	for {
		newest := r.revision.Load()
		if revision <= newest || r.revision.CompareAndSwap(newest, revision) {
			return
		}
	}
}

// newest is the newest revision that any answer has shown, and at least 1.
func (r *record) newest() int64 { return max(r.revision.Load(), 1) }
