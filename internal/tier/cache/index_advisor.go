package cache

import (
	"sync"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/wire/entry"
)

const (
	// maxDemands bounds the number of terms whose demand is remembered.
	maxDemands = 64
	// defaultIndexMinScan is the size of a scan below which an index saves little.
	defaultIndexMinScan = 512
)

// indexAdvisor decides which indexes a resource gets. It adds up, for each term, the
// entries that queries with this term have scanned. When the sum is twice the size of the
// resource, as after two full scans, the reader that reaches it builds the index.
//
// Which selectors clients use is not known beforehand, and every index costs memory and
// a share of each write. So indexes follow the demand in place of a configuration. The
// price is that the first two queries of each kind scan. A resource and all of its
// snapshots share one advisor. A nil advisor does nothing.
type indexAdvisor struct {
	clock clock.PassiveClock
	// minEntries is the number of entries of the smallest scan that counts as demand.
	minEntries int
	// build adds an index of a term to the resource.
	build func(entry.Term)

	mu struct {
		sync.Mutex
		// demand is the number of entries that were scanned for a term since its index was
		// last built. All are forgotten at maxDemands terms.
		demand map[entry.Term]int
		// building says that a reader builds an index. Other readers scan meanwhile.
		building bool
	}
}

// indexUsed records that a query was answered from an index.
func (a *indexAdvisor) indexUsed(order *indexOrder) {
	if a != nil {
		order.markUsed(a.clock.Now())
	}
}

// noteScan records that a query scanned entries of t, unless their number or the query's limit
// is below minEntries. It may build an index before it returns.
func (a *indexAdvisor) noteScan(t Tree, q *Query, entries int) {
	if a == nil || entries < a.minEntries || q.Limit > 0 && q.Limit < a.minEntries {
		return
	}
	term, ok := mostSelectiveTerm(q)
	if !ok || !a.addDemand(term, entries, 2*t.Len()) {
		return
	}
	a.build(term)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.building = false
}

// addDemand adds to a term's demand. It returns true if the demand has reached enough
// and the caller is to build the index.
func (a *indexAdvisor) addDemand(term entry.Term, entries, enough int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.demand == nil || len(a.mu.demand) >= maxDemands {
		a.mu.demand = map[entry.Term]int{}
	}
	a.mu.demand[term] += entries
	if a.mu.building || a.mu.demand[term] < enough {
		return false
	}
	delete(a.mu.demand, term)
	a.mu.building = true
	return true
}

// mostSelectiveTerm returns the term of the requirement that is expected to select the
// fewest entries. That is one for values, else one for the term's absence, else a
// negated one. It returns false if the query has no requirement that an index can
// answer.
func mostSelectiveTerm(q *Query) (term entry.Term, ok bool) {
	best := 0
	for _, l := range indexLookups(q) {
		rank := 1
		if !l.negated {
			rank = 2
			if len(l.hashes) > 0 || l.groups[0] != absentGroup+groupEnd {
				rank = 3
			}
		}
		if rank > best {
			best, term = rank, l.term
		}
	}
	return term, best > 0
}
