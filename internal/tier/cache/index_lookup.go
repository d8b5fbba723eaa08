package cache

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// indexLookup is one requirement of a selector, as an index answers it: the entries of
// some groups, or with negated all entries outside these groups. For a shard it is the
// entries of some ranges of hashes.
type indexLookup struct {
	term entry.Term
	// groups are prefixes of keys in the index, sorted.
	groups  []string
	negated bool
	// hashes are set for a shard only.
	hashes []entry.HashRange
}

// indexLookups returns the requirements of a query that an index can answer.
func indexLookups(q *Query) []indexLookup {
	var all []indexLookup
	if q.Labels != nil {
		requirements, _ := q.Labels.Requirements()
		for i := range requirements {
			if l, ok := labelLookup(&requirements[i]); ok {
				all = append(all, l)
			}
		}
	}
	if q.Fields != nil {
		for _, r := range q.Fields.Requirements() {
			if r.Field == "metadata.namespace" {
				continue // the namespace begins the key
			}
			if l, ok := (indexLookup{term: entry.FieldTerm(r.Field), negated: r.Operator == selection.NotEquals}).withValues(r.Value); ok {
				all = append(all, l)
			}
		}
	}
	// A shard that is a larger share of the objects is cheaper to scan for.
	if q.Shard != nil && q.Shard.Share()*shardLookupCost < 1 {
		all = append(all, indexLookup{term: entry.ShardTerm(q.Shard.Key), hashes: q.Shard.Ranges()})
	}
	return all
}

// labelLookup returns the lookup of a label requirement. It returns false if no index can
// answer the requirement.
func labelLookup(r *labels.Requirement) (indexLookup, bool) {
	l := indexLookup{term: entry.LabelTerm(r.Key())}
	switch r.Operator() {
	case selection.Exists, selection.DoesNotExist:
		l.groups, l.negated = []string{absentGroup + groupEnd}, r.Operator() == selection.Exists
		return l, true
	case selection.NotIn, selection.NotEquals:
		l.negated = true
		return l.withValues(r.ValuesUnsorted()...)
	case selection.In, selection.Equals, selection.DoubleEquals:
		return l.withValues(r.ValuesUnsorted()...)
	}
	return indexLookup{}, false
}

// withValues returns l with the groups of some values. It returns false if one of the values
// has no group.
func (l indexLookup) withValues(values ...string) (indexLookup, bool) {
	for _, v := range values {
		group, ok := valuePrefix(v)
		if !ok {
			return l, false
		}
		l.groups = append(l.groups, group)
	}
	slices.Sort(l.groups)
	l.groups = slices.Compact(l.groups)
	return l, true
}

// count returns an upper bound of the number of entries that collect returns.
func (l indexLookup) count(index Tree, q *Query) int {
	if l.negated {
		n := index.Len()
		for _, group := range l.groups {
			n -= index.Count(group)
		}
		return n
	}
	n := index.Count(unindexedGroup + groupEnd)
	for _, group := range l.groups {
		n += index.CountFrom(group+q.Prefix, group+q.From)
	}
	for _, h := range l.hashes {
		from, end := hashBounds(h)
		n += index.rank(end) - index.rank(from)
	}
	return n
}

// hashBounds returns the bounds of the keys of a range of hashes: the first key, and the key
// after the last.
func hashBounds(h entry.HashRange) (from, end string) {
	return hashPrefix(h.First), prefixEnd(hashPrefix(h.Last))
}

// collect returns the index's candidates in the query's scope, in any order.
func (l indexLookup) collect(index Tree, q *Query) []*entry.Entry {
	var found []*entry.Entry
	collectRange := func(from, end string) {
		index.walkRange(from, end, func(e *entry.Entry) {
			if strings.HasPrefix(e.Key, q.Prefix) && e.Key >= q.From {
				found = append(found, e)
			}
		})
	}
	if l.negated {
		from := ""
		for _, group := range l.groups {
			collectRange(from, group)
			from = prefixEnd(group)
		}
		collectRange(from, "")
		return found
	}
	for _, group := range append(l.groups, unindexedGroup+groupEnd) {
		collectRange(max(group+q.Prefix, group+q.From), prefixEnd(group+q.Prefix))
	}
	for _, h := range l.hashes {
		collectRange(hashBounds(h))
	}
	return found
}

// candidatesByIndex returns the candidates of the index with the fewest, in key order. It
// returns false if no index costs less than a walk through the scope.
func (s Snapshot) candidatesByIndex(q *Query) (iter.Seq[encode.EntryRun], Plan, bool) {
	if len(s.indexes) == 0 {
		return nil, Plan{}, false
	}
	scope := s.CountFrom(q.Prefix, q.From)
	best, fewest := -1, 0
	var lookup indexLookup
	for _, l := range indexLookups(q) {
		i := findIndex(s.indexes, l.term)
		if i < 0 {
			continue
		}
		if n := l.count(s.indexes[i], q); best < 0 || n < fewest {
			best, fewest, lookup = i, n, l
		}
	}
	if best < 0 || !worthwhile(fewest, scope, q.Limit) {
		return nil, Plan{}, false
	}
	index := s.indexes[best]
	s.advisor.indexUsed(index.order)
	found := lookup.collect(index, q)
	slices.SortFunc(found, func(a, b *entry.Entry) int { return strings.Compare(a.Key, b.Key) })
	runs := make([]encode.EntryRun, 0, len(found))
	for _, e := range found {
		if run, ok := s.Find(e.Key); ok {
			runs = appendRun(runs, run)
		}
	}
	return slices.Values(runs), Plan{Path: PathIndex, Term: index.order.term, Candidates: len(found)}, true
}

// indexLookupCost is the cost of finding an entry through an index, in entries of a scan
// (docs/bench/cache.md).
const indexLookupCost = 9

// shardLookupCost is the cost of finding an entry through a shard's index, in entries of a
// scan that only compares hashes.
const shardLookupCost = 14

// worthwhile reports whether an index that leads to candidates entries costs less than a walk
// through the scope. With a limit the walk is expected to end after limit/candidates of the
// scope.
func worthwhile(candidates, scope, limit int) bool {
	walked := scope
	if limit > 0 && candidates > limit {
		walked = int(float64(scope) * float64(limit) / float64(candidates))
	}
	return candidates*indexLookupCost < walked
}
