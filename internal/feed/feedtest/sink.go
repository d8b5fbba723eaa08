package feedtest

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// Sink keeps what a feed writes, and fails the test at each call that breaks the contract.
type Sink struct {
	t  *testing.T
	mu struct {
		sync.Mutex
		objects map[string]feed.Object
		// events are all since the sink was made. loads are the revisions of the loads that
		// have ended.
		events []feed.Object
		loads  []int64
		// applied is the revision up to which the sink has everything, and expected the one
		// that it has to reach before it is as new as the source was.
		applied, expected int64
		// allowsHistory says that a load may begin another history.
		allowsHistory bool
		// ended says that Run has returned.
		ended bool
		// moved is closed when anything changes.
		moved chan struct{}
	}
}

// NewSink makes an empty sink.
func NewSink(t *testing.T) *Sink {
	s := &Sink{t: t}
	s.mu.moved = make(chan struct{})
	return s
}

// change changes the sink under its lock.
func (s *Sink) change(by func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		s.t.Error("the feed calls its sink after Run has returned")
	}
	by()
	close(s.mu.moved)
	s.mu.moved = make(chan struct{})
}

// BeginLoad implements feed.Sink.
func (s *Sink) BeginLoad() feed.Loader {
	s.change(func() {})
	return &loader{sink: s, objects: map[string]feed.Object{}}
}

// Received implements feed.Sink.
func (s *Sink) Received(at time.Time) {
	if at.IsZero() {
		s.t.Error("events arrived at no time")
	}
}

// Apply implements feed.Sink.
func (s *Sink) Apply(_ context.Context, events []feed.Object) {
	s.change(func() {
		if len(events) == 0 {
			s.t.Error("a response without events")
		}
		before := s.mu.applied
		for _, e := range events {
			s.applyLocked(e, before)
		}
	})
}

// applyLocked applies an event of a response. before is the revision that was applied before
// the response.
func (s *Sink) applyLocked(e feed.Object, before int64) {
	key := string(e.Key)
	_, exists := s.mu.objects[key]
	switch {
	case e.Revision <= before || e.Revision < s.mu.applied:
		s.t.Errorf("an event of %s at revision %d behind revision %d", key, e.Revision, s.mu.applied)
	case e.Deleted && (!exists || e.Value != nil):
		s.t.Errorf("the deletion of %s at revision %d: the object exists: %v, and it has the value %q", key, e.Revision, exists, e.Value)
	case !e.Deleted && len(e.Value) == 0:
		s.t.Errorf("%s at revision %d has no value", key, e.Revision)
	}
	if s.mu.objects[key] = e; e.Deleted {
		delete(s.mu.objects, key)
	}
	s.mu.events, s.mu.applied = append(s.mu.events, e), e.Revision
}

// Progressed implements feed.Sink.
func (s *Sink) Progressed(revision int64) {
	s.change(func() {
		if revision < s.mu.applied {
			s.t.Errorf("progress to revision %d behind revision %d", revision, s.mu.applied)
		}
		s.mu.applied = max(s.mu.applied, revision)
	})
}

// loader collects the objects of a load.
type loader struct {
	sink    *Sink
	objects map[string]feed.Object
	last    string
	newest  int64
	// expected is Expect's argument.
	expected int64
	ended    bool
}

// Expect implements feed.Loader.
func (l *loader) Expect(newest int64) { l.expected = newest }

// Unchanged implements feed.Loader.
func (l *loader) Unchanged(string, int64) {}

// Add implements feed.Loader.
func (l *loader) Add(_ context.Context, page []feed.Object) {
	for _, o := range page {
		key := string(o.Key)
		if key <= l.last || o.Deleted || len(o.Value) == 0 {
			l.sink.t.Errorf("a load has %s behind %s, deleted: %v, with the value %q", key, l.last, o.Deleted, o.Value)
		}
		l.last, l.newest = key, max(l.newest, o.Revision)
		l.objects[key] = o
	}
}

// End implements feed.Loader.
func (l *loader) End(_ context.Context, revision int64) {
	s := l.sink
	s.change(func() {
		if l.ended || l.newest > revision || revision < s.mu.applied && !s.mu.allowsHistory {
			s.t.Errorf("a load ends at revision %d, has an object of %d and comes behind %d; it has ended before: %v", revision, l.newest, s.mu.applied, l.ended)
		}
		l.ended = true
		s.mu.objects, s.mu.applied = l.objects, revision
		s.mu.loads, s.mu.expected = append(s.mu.loads, revision), max(revision, l.expected)
	})
}

// end says that Run has returned.
func (s *Sink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ended = true
}

// contents is what a sink has at one moment.
type contents struct {
	objects           map[string]feed.Object
	events            []feed.Object
	loads             []int64
	applied, expected int64
}

// now returns the contents, and a channel that is closed when they change.
func (s *Sink) now() (contents, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return contents{maps.Clone(s.mu.objects), s.mu.events[:len(s.mu.events):len(s.mu.events)], s.mu.loads, s.mu.applied, s.mu.expected}, s.mu.moved
}

// AllowHistory lets loads begin another history, of any revision.
func (s *Sink) AllowHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.allowsHistory = true
}

// Applied returns the revision up to which the sink has everything, 0 before the first load.
func (s *Sink) Applied() int64 {
	now, _ := s.now()
	return now.applied
}

// Loads returns the revisions of the loads that have ended.
func (s *Sink) Loads() []int64 {
	now, _ := s.now()
	return now.loads
}

// Value returns the value of an object, "" if there is none.
func (s *Sink) Value(key string) string {
	now, _ := s.now()
	return string(now.objects[key].Value)
}
