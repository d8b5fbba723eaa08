package watch

import (
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// Selection is what a watch wants to see.
type Selection struct {
	cache.Scope
	// Labels and Fields select objects. Nil selects all.
	Labels labels.Selector
	Fields fields.Selector
}

func (s *Selection) selects(e *resource.Entry) bool {
	return e != nil && s.Holds(e.Key) && e.Matches(s.Labels, s.Fields)
}

// String is how people know a selection, as in "namespace=a, labels: app=b, fields:
// spec.nodeName=n".
func (s *Selection) String() string {
	var parts []string
	scope := s.Prefix
	if namespace, name, ok := strings.Cut(scope, "/"); ok {
		parts = append(parts, "namespace="+namespace)
		scope = name
	}
	if scope != "" {
		parts = append(parts, "name="+scope)
	}
	if s.Labels != nil && !s.Labels.Empty() {
		parts = append(parts, "labels: "+s.Labels.String())
	}
	if s.Fields != nil && !s.Fields.Empty() {
		parts = append(parts, "fields: "+s.Fields.String())
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

// identity tells selections apart.
type identity struct {
	scope          cache.Scope
	labels, fields string
}

func (s *Selection) identity() identity {
	id := identity{scope: s.Scope}
	if s.Labels != nil {
		id.labels = s.Labels.String()
	}
	if s.Fields != nil {
		id.fields = s.Fields.String()
	}
	return id
}

// meaning is what an event is to a selection.
type meaning uint8

const (
	nothing meaning = iota
	added
	modified
	deleted
	// opaque is an event that the bytes do not tell.
	opaque
)

// classify tells what an event is to a selection: an object that comes to be
// selected is ADDED, one that ceases to be is DELETED.
func (s *Selection) classify(e *cache.Event) meaning {
	is, was := s.selects(e.Entry), s.selects(e.Previous)
	switch {
	case is && was:
		return modified
	case is:
		return added
	case was:
		return deleted
	}
	return nothing
}

// kind is the meaning's name in the API.
func (m meaning) kind() watch.EventType {
	switch m {
	case added:
		return watch.Added
	case modified:
		return watch.Modified
	}
	return watch.Deleted
}

// match is an event that a subscription selects.
type match struct {
	at   cache.Cursor
	what meaning
}

// subscription is what watches with the same selection share: where in the log
// the events are that they want. It holds no events, so what bounds the log
// bounds the memory that a slow watch can keep. Hub.mu guards it.
type subscription struct {
	Selection
	id identity
	// from is the place in the log from which on matches are complete.
	from cache.Cursor
	// matches are in order. dropped is how many went before the first of them.
	matches []match
	dropped int64
	// waiting are cursors that have read everything. cursors counts all.
	waiting []*Cursor
	cursors int
	// lost says that the log was forgotten: no cursor leads on.
	lost bool
}

// add appends a match unless it is there, and drops those that the log has
// dropped.
func (s *subscription) add(m match, oldest cache.Cursor) bool {
	if n := len(s.matches); n > 0 && s.matches[n-1].at == m.at {
		return false // a selector with several values can be found twice
	}
	if len(s.matches) > 0 && s.matches[0].at < oldest && len(s.matches) == cap(s.matches) {
		gone := s.search(oldest)
		s.dropped += int64(gone)
		s.matches = append(make([]match, 0, 2*(len(s.matches)-gone)+1), s.matches[gone:]...)
	}
	s.matches = append(s.matches, m)
	return true
}

// search returns the first match at or behind a place.
func (s *subscription) search(at cache.Cursor) int {
	return sort.Search(len(s.matches), func(i int) bool { return s.matches[i].at >= at })
}
