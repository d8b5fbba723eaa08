package cache

import (
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// Query says which entries of a snapshot are wanted.
type Query struct {
	// Prefix begins their keys, and From is the least of them.
	Prefix, From string
	// Single says that Prefix is the one key.
	Single bool
	// Labels and Fields select among them. Nil and empty ones select all.
	Labels labels.Selector
	Fields fields.Selector
	// Limit ends the selection, 0 does not.
	Limit int
	// Within narrows what counts as more behind the limit. Nil is all of Prefix.
	Within fields.Selector
}

// selects reports whether a selector can rule an entry out.
func (q *Query) selects() bool {
	return q.Labels != nil && !q.Labels.Empty() || q.Fields != nil && !q.Fields.Empty()
}

// Plan is how a query was answered.
type Plan struct {
	// Path is the way to the candidates.
	Path Path
	// Term is the index's, of PathIndex.
	Term resource.Term
	// Candidates is the number of entries that the way led to.
	Candidates int
}

// Index names the index that was used, "" if there was none.
func (p Plan) Index() string {
	if p.Path != PathIndex {
		return ""
	}
	return p.Term.String()
}

// Path is a way to find entries. The values are labels of a metric.
type Path string

const (
	// PathKey is a look-up of one key.
	PathKey Path = "key"
	// PathRange walks neighbouring keys that are all wanted.
	PathRange Path = "range"
	// PathIndex walks the values of an index that a selector names.
	PathIndex Path = "index"
	// PathScan walks neighbouring keys and asks the selectors of each.
	PathScan Path = "scan"
)

// Candidates yields, in key order, the query's entries and maybe others that
// its selectors do not select. Spans can be walked more than once.
func (s Snapshot) Candidates(q *Query) (iter.Seq[encode.Span], Plan) {
	if q.Single {
		return s.single(q.Prefix)
	}
	if !q.selects() {
		return s.spans(q.Prefix, max(q.Prefix, q.From)), Plan{Path: PathRange, Candidates: s.CountFrom(q.Prefix, q.From)}
	}
	if spans, plan, ok := s.lookUp(q); ok {
		return spans, plan
	}
	plan := Plan{Path: PathScan, Candidates: s.CountFrom(q.Prefix, q.From)}
	s.learning.scanned(s.Tree, q, plan.Candidates)
	return s.spans(q.Prefix, max(q.Prefix, q.From)), plan
}

func (s Snapshot) single(key string) (iter.Seq[encode.Span], Plan) {
	span, ok := s.Find(key)
	if !ok {
		return func(func(encode.Span) bool) {}, Plan{Path: PathKey}
	}
	return func(yield func(encode.Span) bool) { yield(span) }, Plan{Path: PathKey, Candidates: 1}
}

// Selection is what a query selects.
type Selection struct {
	Plan Plan
	// Spans are the entries, in key order. They can be walked more than once.
	Spans iter.Seq[encode.Span]
	// Count is their number, and Last the last one's key.
	Count int
	Last  string
	// Examined is how many entries were looked at: of the candidates, those before the
	// limit ended the selection.
	Examined int
	// More says that there are entries behind the last one in the query's scope,
	// selected or not. It is only set when the limit ended the selection.
	More bool
	// Total is the number of entries in the scope from From on, selected or not.
	Total int
	// Opaque says that the answer does not follow from the entries' bytes alone: one
	// of those selected is not plain, or one that was looked at is unreadable.
	Opaque bool
}

// Select answers a query. Entries of the resource must have attributes.
func (s Snapshot) Select(q *Query) Selection {
	candidates, plan := s.Candidates(q)
	sel := Selection{Plan: plan, Spans: candidates, Count: plan.Candidates, Total: s.Total(q)}
	if plan.Path == PathRange && s.Opaque == 0 && (q.Limit <= 0 || q.Limit >= sel.Count) {
		sel.Examined = sel.Count
		return sel
	}
	sel.Count = 0
	var chosen []encode.Span
	for span := range candidates {
		for i := span.From; i < span.To; i++ {
			e := span.Entries[i]
			sel.Examined++
			if e.Opaque() {
				if e.Err != nil || e.Matches(q.Labels, q.Fields) {
					sel.Opaque = true
				}
			} else if e.Matches(q.Labels, q.Fields) {
				chosen = add(chosen, encode.Span{Memo: span.Memo, Entries: span.Entries, From: i, To: i + 1})
				sel.Count++
				sel.Last = e.Key
			}
			if q.Limit > 0 && sel.Count >= q.Limit {
				sel.More = s.More(q, sel.Last)
				sel.Spans = slices.Values(chosen)
				return sel
			}
		}
	}
	sel.Spans = slices.Values(chosen)
	return sel
}

// Page is a selection with what a list says of itself.
type Page struct {
	Selection
	// Revision is that of the snapshot.
	Revision int64
	// Continue is the token of the next page, and Remaining how much is left.
	Continue  string
	Remaining *int64
	// Waited is how long the state was waited for.
	Waited time.Duration
}

// More reports whether the query's scope has entries behind a key, selected or
// not.
func (s Snapshot) More(q *Query, last string) bool {
	if q.Single || s.CountFrom(q.Prefix, last+groupEnd) == 0 {
		return false
	}
	if q.Within == nil {
		return true
	}
	return s.Select(&Query{Prefix: q.Prefix, From: last + groupEnd, Fields: q.Within, Limit: 1}).Count > 0
}

// Total is the number of entries in the query's scope from From on, selected or
// not.
func (s Snapshot) Total(q *Query) int {
	if !q.Single {
		return s.CountFrom(q.Prefix, q.From)
	}
	if s.Get(q.Prefix) == nil {
		return 0
	}
	return 1
}

// add appends a run of entries, to the last one if they are neighbours.
func add(spans []encode.Span, next encode.Span) []encode.Span {
	if n := len(spans); n > 0 && spans[n-1].To == next.From && &spans[n-1].Entries[0] == &next.Entries[0] {
		spans[n-1].To = next.To
		return spans
	}
	return append(spans, next)
}

// lookUp answers from the index that leads to the fewest candidates, if that is
// better than walking the scope.
func (s Snapshot) lookUp(q *Query) (iter.Seq[encode.Span], Plan, bool) {
	if len(s.indexes) == 0 {
		return nil, Plan{}, false
	}
	scope := s.CountFrom(q.Prefix, q.From)
	best, fewest := -1, 0
	var way wanted
	for _, w := range wants(q) {
		i := slices.IndexFunc(s.indexes, func(t Tree) bool { return t.by.term == w.term })
		if i < 0 {
			continue
		}
		if n := w.count(s.indexes[i], q); best < 0 || n < fewest {
			best, fewest, way = i, n, w
		}
	}
	if best < 0 || !worthwhile(fewest, scope, q.Limit) {
		return nil, Plan{}, false
	}
	index := s.indexes[best]
	s.learning.touch(index.by)
	found := way.collect(index, q)
	slices.SortFunc(found, func(a, b *resource.Entry) int { return strings.Compare(a.Key, b.Key) })
	spans := make([]encode.Span, 0, len(found))
	for _, e := range found {
		if span, ok := s.Find(e.Key); ok {
			spans = add(spans, span)
		}
	}
	return slices.Values(spans), Plan{Path: PathIndex, Term: index.by.term, Candidates: len(found)}, true
}

// lookUpCost is what finding an entry through an index costs, in entries that a
// scan asks (docs/bench/cache.md).
const lookUpCost = 9

// worthwhile compares an index that leads to some candidates with a walk through
// the scope. The walk ends at the limit, which it may meet early.
func worthwhile(candidates, scope, limit int) bool {
	walked := scope
	if limit > 0 && candidates > limit {
		walked = int(float64(scope) * float64(limit) / float64(candidates))
	}
	return candidates*lookUpCost < walked
}
