package cache

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Query selects entries of a snapshot. Its scope is the keys that begin with Prefix and
// are not below From.
type Query struct {
	Prefix, From string
	// Single says that Prefix is the only key of the scope.
	Single bool
	// Labels and Fields select entries in the scope. Nil and empty ones select all.
	Labels labels.Selector
	Fields fields.Selector
	// Shard is the part of the scope that is selected. Nil means all of it.
	Shard *entry.Shard
	// Limit is the number of entries after which the result ends. Zero means no limit.
	Limit int
	// Within restricts which entries after the limit count for Result.More. Nil means
	// all entries of the scope.
	Within fields.Selector
}

// Selects reports whether a selector can exclude an entry.
func (q *Query) Selects() bool {
	return q.Labels != nil && !q.Labels.Empty() || q.Fields != nil && !q.Fields.Empty() || q.Shard != nil
}

// matches reports whether the selectors select an entry. The entry must have attributes,
// unless there are no selectors.
func (q *Query) matches(e *entry.Entry) bool {
	return q.Shard.Holds(e) && e.Matches(q.Labels, q.Fields)
}

// Plan says how a query was answered.
type Plan struct {
	// Path is how the candidates were found.
	Path Path
	// Term is the index's term, with PathIndex.
	Term entry.Term
	// Candidates is the number of entries that the path leads to. The limit is not counted
	// with.
	Candidates int
}

// Index names the index that was used. It is "" if no index was used.
func (p Plan) Index() string {
	if p.Path != PathIndex {
		return ""
	}
	return p.Term.String()
}

// Path is a way to find entries. The values are label values of a metric.
type Path string

const (
	// PathKey finds one key.
	PathKey Path = "key"
	// PathRange walks neighbouring keys, all of which are selected.
	PathRange Path = "range"
	// PathIndex walks the part of an index that a selector names.
	PathIndex Path = "index"
	// PathScan walks neighbouring keys and matches each with the selectors.
	PathScan Path = "scan"
)

// Candidates returns, in key order, all entries that the query selects, and maybe others
// that its selectors exclude. It ignores the limit. The runs can be walked more than once.
func (s Snapshot) Candidates(q *Query) (iter.Seq[encode.EntryRun], Plan) {
	if q.Single {
		return s.singleCandidate(q.Prefix)
	}
	if !q.Selects() {
		return s.runsFrom(q.Prefix, max(q.Prefix, q.From)), Plan{Path: PathRange, Candidates: s.CountFrom(q.Prefix, q.From)}
	}
	if runs, plan, ok := s.candidatesByIndex(q); ok {
		return runs, plan
	}
	plan := Plan{Path: PathScan, Candidates: s.CountFrom(q.Prefix, q.From)}
	s.advisor.noteScan(s.Tree, q, plan.Candidates)
	return s.runsFrom(q.Prefix, max(q.Prefix, q.From)), plan
}

func (s Snapshot) singleCandidate(key string) (iter.Seq[encode.EntryRun], Plan) {
	run, ok := s.Find(key)
	if !ok {
		return func(func(encode.EntryRun) bool) {}, Plan{Path: PathKey}
	}
	return func(yield func(encode.EntryRun) bool) { yield(run) }, Plan{Path: PathKey, Candidates: 1}
}

// Result is the set of entries that a query selects. If Opaque is set, the selected opaque
// entries are missing in it, and the reader is answered in another way.
type Result struct {
	Plan Plan
	// Runs are the selected entries, in key order. They can be walked more than once.
	Runs iter.Seq[encode.EntryRun]
	// Count is the number of selected entries.
	Count int
	// Last is the key of the last selected entry. It is set only if entries were
	// selected one by one.
	Last string
	// Examined is the number of candidates that were examined before the limit ended
	// the result.
	Examined int
	// More says that the scope, within Query.Within, has entries after Last, selected or
	// not. It is only set when the limit ended the result.
	More bool
	// Total is the number of entries in the scope, selected or not.
	Total int
	// Opaque says that stored bytes alone do not answer the query. A selected entry is
	// altered on its way out, or an examined one is unreadable.
	Opaque bool
}

// Select answers a query. The readable entries of the resource must have attributes, unless
// the query has no selectors.
func (s Snapshot) Select(q *Query) Result {
	candidates, plan := s.Candidates(q)
	sel := Result{Plan: plan, Runs: candidates, Count: plan.Candidates, Total: s.Total(q)}
	if plan.Path == PathRange && s.Opaque == 0 && (q.Limit <= 0 || q.Limit >= sel.Count) {
		sel.Examined = sel.Count
		return sel
	}
	sel.Count = 0
	var chosen []encode.EntryRun
	for run := range candidates {
		for i := run.From; i < run.To; i++ {
			e := run.Entries[i]
			sel.Examined++
			if e.Opaque() {
				if e.Err != nil || q.matches(e) {
					sel.Opaque = true
				}
			} else if q.matches(e) {
				chosen = appendRun(chosen, encode.EntryRun{Memo: run.Memo, Entries: run.Entries, From: i, To: i + 1})
				sel.Count++
				sel.Last = e.Key
			}
			if q.Limit > 0 && sel.Count >= q.Limit {
				sel.More = s.More(q, sel.Last)
				sel.Runs = slices.Values(chosen)
				return sel
			}
		}
	}
	sel.Runs = slices.Values(chosen)
	return sel
}

// Page is a result together with the metadata of a list.
type Page struct {
	Result
	// Revision is the snapshot's revision.
	Revision int64
	// Continue is the token of the next page. It is "" on the last page.
	Continue string
	// Remaining is the number of entries after the page. Nil means unknown or none.
	Remaining *int64
}

// More reports whether the query's scope, within Within, has entries after the key last. The
// query's selectors do not matter.
func (s Snapshot) More(q *Query, last string) bool {
	if q.Single || s.CountFrom(q.Prefix, last+groupEnd) == 0 {
		return false
	}
	if q.Within == nil {
		return true
	}
	return s.Select(&Query{Prefix: q.Prefix, From: last + groupEnd, Fields: q.Within, Limit: 1}).Count > 0
}

// Total returns the number of entries in the query's scope, selected or not.
func (s Snapshot) Total(q *Query) int {
	if !q.Single {
		return s.CountFrom(q.Prefix, q.From)
	}
	if s.Get(q.Prefix) == nil {
		return 0
	}
	return 1
}

// appendRun appends a run. It extends the last run instead if the two are neighbours
// in one leaf.
func appendRun(runs []encode.EntryRun, next encode.EntryRun) []encode.EntryRun {
	if n := len(runs); n > 0 && runs[n-1].To == next.From && &runs[n-1].Entries[0] == &next.Entries[0] {
		runs[n-1].To = next.To
		return runs
	}
	return append(runs, next)
}
