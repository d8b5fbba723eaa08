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
		// events are all events since the sink was made.
		events []feed.Object
		// loads are the revisions of the loads that have ended.
		loads []int64
		// applied is the revision up to which the sink has everything.
		applied int64
		// expected is the revision that Expect has announced. Until applied reaches it, the
		// sink is not as new as the source was.
		expected int64
		// allowsOtherHistory says that a load may lower the revision.
		allowsOtherHistory bool
		// ended says that Run has returned.
		ended bool
		// changed is closed when anything changes, and then replaced.
		changed chan struct{}
	}
}

// NewSink makes an empty sink.
func NewSink(t *testing.T) *Sink {
	s := &Sink{t: t}
	s.mu.changed = make(chan struct{})
	return s
}

// update edits the sink under its lock, wakes goroutines that wait for a change, and checks that
// Run has not returned.
func (s *Sink) update(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		s.t.Error("the feed calls its sink after Run has returned")
	}
	edit()
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// BeginLoad implements feed.Sink.
func (s *Sink) BeginLoad() feed.Loader {
	s.update(func() {}) // a load changes nothing before its end
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
	s.update(func() {
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
	// Events of one response may share a revision. Two responses may not.
	case e.Revision <= before || e.Revision < s.mu.applied:
		s.t.Errorf("an event of %s has revision %d, and revision %d was applied: revisions must ascend", key, e.Revision, s.mu.applied)
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
	s.update(func() {
		if revision < s.mu.applied {
			s.t.Errorf("progress to revision %d, and revision %d was applied: revisions must not fall", revision, s.mu.applied)
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
		switch {
		case key <= l.last:
			l.sink.t.Errorf("a load has %s after %s: keys must ascend", key, l.last)
		case o.Deleted:
			l.sink.t.Errorf("a load has the deletion of %s", key)
		case len(o.Value) == 0:
			l.sink.t.Errorf("a load has %s without a value", key)
		}
		l.last, l.newest = key, max(l.newest, o.Revision)
		l.objects[key] = o
	}
}

// End implements feed.Loader.
func (l *loader) End(_ context.Context, revision int64) {
	s := l.sink
	s.update(func() {
		switch {
		case l.ended:
			s.t.Errorf("a load ends twice, the second time at revision %d", revision)
		case l.newest > revision:
			s.t.Errorf("a load ends at revision %d, and has an object of revision %d", revision, l.newest)
		case revision < s.mu.applied && !s.mu.allowsOtherHistory:
			s.t.Errorf("a load ends at revision %d, and revision %d was applied: revisions must not fall", revision, s.mu.applied)
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

// contents returns the contents, and a channel that is closed when they change.
func (s *Sink) contents() (contents, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return contents{maps.Clone(s.mu.objects), s.mu.events[:len(s.mu.events):len(s.mu.events)], s.mu.loads, s.mu.applied, s.mu.expected}, s.mu.changed
}

// AllowOtherHistory lets a load go back to a lower revision, as after a restore.
func (s *Sink) AllowOtherHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.allowsOtherHistory = true
}

// AppliedRevision returns the revision up to which the sink has everything. It returns 0 before the
// first load.
func (s *Sink) AppliedRevision() int64 {
	c, _ := s.contents()
	return c.applied
}

// Loads returns the revisions of the loads that have ended.
func (s *Sink) Loads() []int64 {
	c, _ := s.contents()
	return c.loads
}

// Value returns the value of an object. It returns "" if there is none.
func (s *Sink) Value(key string) string {
	c, _ := s.contents()
	return string(c.objects[key].Value)
}
