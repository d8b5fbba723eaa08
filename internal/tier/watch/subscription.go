package watch

import (
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Filter says which objects a watch shows.
type Filter struct {
	cache.Scope
	// Labels and Fields select objects. Nil selects all.
	Labels labels.Selector
	Fields fields.Selector
	// Shard is the part of the selected objects that the watch shows. Nil stands for all
	// of them.
	Shard *entry.Shard
}

func (s *Filter) selects(e *entry.Entry) bool {
	return e != nil && s.Holds(e.Key) && s.Shard.Holds(e) && e.Matches(s.Labels, s.Fields)
}

// String describes the filter for people, as in "namespace=a, labels: app=b, fields:
// spec.nodeName=n, shard: shardRange(...)".
func (s *Filter) String() string {
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
	if s.Shard != nil {
		parts = append(parts, "shard: "+s.Shard.String())
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

// identity is a filter in comparable form. Watches with equal identities share a
// subscription.
type identity struct {
	scope                 cache.Scope
	labels, fields, shard string
}

func (s *Filter) identity() identity {
	id := identity{scope: s.Scope, shard: s.Shard.String()}
	if s.Labels != nil {
		id.labels = s.Labels.String()
	}
	if s.Fields != nil {
		id.fields = s.Fields.String()
	}
	return id
}

// eventClass says what an event means to a filter.
type eventClass uint8

const (
	// unrelated is an event that the filter does not show.
	unrelated eventClass = iota
	added
	modified
	deleted
	// opaque is an event that stored bytes do not answer.
	opaque
)

// classify returns an event's class, which is not opaque: nor must the event be. An object
// that becomes selected is added, one that is no longer selected is deleted.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.convertToWatchEvent; compare at each upgrade.
func (s *Filter) classify(e *cache.Event) eventClass {
	is, was := s.selects(e.Entry), s.selects(e.Previous)
	switch {
	case is && was:
		return modified
	case is:
		return added
	case was:
		return deleted
	}
	return unrelated
}

// eventType returns the API's type of an added, modified or deleted event.
func (c eventClass) eventType() watch.EventType {
	switch c {
	case added:
		return watch.Added
	case modified:
		return watch.Modified
	}
	return watch.Deleted
}

// match is an event that a subscription selects: its position in the log, and its
// class.
type match struct {
	at    cache.Position
	class eventClass
}

// subscription is shared by all watches with the same filter. It lists the positions
// of the events that the filter selects. It holds no events, so the bounds of the log also
// bound the memory that a slow watch can keep alive. Hub.mu guards it.
type subscription struct {
	Filter
	id identity
	// from is the position from which on the matches are complete: the end of the log
	// when the subscription began.
	from cache.Position
	// matches are in order of their positions.
	matches []match
	// dropped is the number of matches that were dropped before matches[0].
	dropped int64
	// waiting are the cursors that have read all matches and are to be woken at the next.
	waiting []*Cursor
	// cursors is the number of open cursors.
	cursors int
	// lost says that the log was reset: all cursors of the subscription are lost.
	lost bool
}

// addMatch appends a match unless the event has one, and reports whether it did. When the
// slice is full, it first drops the matches of events that the log has dropped, before
// oldest.
func (s *subscription) addMatch(m match, oldest cache.Position) bool {
	if n := len(s.matches); n > 0 && s.matches[n-1].at == m.at {
		return false // the index finds a selector with several values twice
	}
	if len(s.matches) > 0 && s.matches[0].at < oldest && len(s.matches) == cap(s.matches) {
		expired := s.firstAt(oldest)
		s.dropped += int64(expired)
		s.matches = append(make([]match, 0, 2*(len(s.matches)-expired)+1), s.matches[expired:]...)
	}
	s.matches = append(s.matches, m)
	return true
}

// firstAt returns the index of the first match at or after a position.
func (s *subscription) firstAt(at cache.Position) int {
	return sort.Search(len(s.matches), func(i int) bool { return s.matches[i].at >= at })
}
