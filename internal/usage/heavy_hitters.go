package usage

import (
	"hash/maphash"
	"sync"

	"github.com/millrace/millrace/internal/report"
)

// table holds accounts by key, in stripes with a lock each. A stripe that is full
// gives the place of its lightest account to a newcomer, who inherits the weight
// (the space-saving sketch of Metwally et al.): what is heavier than a place's share
// of all weight is never lost, however many names come once. What is told is the
// newcomer's own cost, without what it inherited.
type table[K comparable, O any] struct {
	seed maphash.Seed
	// clone copies a key that is kept.
	clone   func(K) K
	stripes [stripes]stripe[K, O]
}

const (
	stripes = 8
	// decay is what is left of a weight after a minute: half after six.
	decay = 0.9
)

type stripe[K comparable, O any] struct {
	mu struct {
		sync.Mutex
		places int
		// cells are found by the hash of their key: with a random seed and 64 bits,
		// no two of some thousand keys meet.
		cells map[uint64]*cell[K, O]
		order []*cell[K, O]
		// weights are those of order, side by side since they are walked.
		weights []float64
		// minute is when the weights decayed last.
		minute int64
		// total is the cost of all requests since the start.
		total report.ListCost
	}
}

// cell is the account of one key. The stripe's lock guards it.
type cell[K, O any] struct {
	hash       uint64
	place      int
	key        *K
	tenMinutes tenMinutes
	// partners are what is asked, or who asks.
	partners partners[O]
	series   *series
}

func newTable[K comparable, O any](places int, clone func(K) K) *table[K, O] {
	t := &table[K, O]{seed: maphash.MakeSeed(), clone: clone}
	for i := range t.stripes {
		t.stripes[i].mu.places = places / stripes
		t.stripes[i].mu.cells = map[uint64]*cell[K, O]{}
	}
	return t
}

func (t *table[K, O]) find(key K) (uint64, *stripe[K, O]) {
	hash := maphash.Comparable(t.seed, key)
	return hash, &t.stripes[hash%stripes]
}

// addLocked adds a request to the account of a key and returns that. fresh says
// that the account is new.
func (s *stripe[K, O]) addLocked(hash uint64, key K, r *account, clone func(K) K) (c *cell[K, O], fresh bool) {
	s.decayLocked(r.minute)
	c = s.mu.cells[hash]
	if fresh = c == nil; fresh {
		c = s.placeLocked()
		kept := clone(key)
		*c = cell[K, O]{hash: hash, place: c.place, key: &kept}
		s.mu.cells[hash] = c
	}
	s.mu.weights[c.place] += r.weight()
	c.tenMinutes.add(r.minute, &r.cost)
	s.mu.total.Add(&r.cost)
	return c, fresh
}

// placeLocked makes or takes a cell. It keeps its place, and so its weight.
func (s *stripe[K, O]) placeLocked() *cell[K, O] {
	if n := len(s.mu.order); n < s.mu.places {
		c := &cell[K, O]{place: n}
		s.mu.order = append(s.mu.order, c)
		s.mu.weights = append(s.mu.weights, 0)
		return c
	}
	least := 0
	for i, w := range s.mu.weights {
		if w < s.mu.weights[least] {
			least = i
		}
	}
	c := s.mu.order[least]
	delete(s.mu.cells, c.hash)
	return c
}

func (s *stripe[K, O]) decayLocked(minute int64) {
	if s.mu.minute == 0 {
		s.mu.minute = minute
	}
	for ; s.mu.minute < minute; s.mu.minute++ {
		if minute-s.mu.minute > windowMinutes*windowMinutes {
			s.mu.minute = minute - windowMinutes*windowMinutes
		}
		for i := range s.mu.weights {
			s.mu.weights[i] *= decay
		}
	}
}

// summary is what a cell tells.
type summary[K, O any] struct {
	key      *K
	cost     report.ListCost
	partners []partnership[O]
}

// summaries are of all keys with requests in the window.
func (t *table[K, O]) summaries(minute int64) (all []summary[K, O], total report.ListCost) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.Lock()
		for _, c := range s.mu.order {
			if cost := c.tenMinutes.sum(minute); cost.Requests > 0 {
				all = append(all, summary[K, O]{key: c.key, cost: cost, partners: c.partners.top(halfOf(minute))})
			}
		}
		total.Add(&s.mu.total)
		s.mu.Unlock()
	}
	return all, total
}
