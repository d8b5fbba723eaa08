package usage

import (
	"hash/maphash"
	"sync"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// heavyHitters keeps an account for each of the most expensive keys of type K. Accounts
// keeps two such tables: one by client, one by shape. Every account also has its most
// expensive partners, which are keys of type P of the other table.
//
// The algorithm is Space-Saving (Metwally et al., ICDT 2005). A new key takes over the
// lightest account when its stripe is full, and inherits that account's weight. So a key
// that has more than one account's share of the total weight is never lost, however many
// keys come once. The inherited weight only ranks accounts: reports have an account's own
// cost.
//
// Stripes have a lock each, so that requests of different keys rarely meet. The price
// is that each stripe ranks its own keys only.
type heavyHitters[K comparable, P any] struct {
	seed maphash.Seed
	// clone copies a key that a new account keeps.
	clone   func(K) K
	stripes [stripes]stripe[K, P]
}

const (
	stripes = 8
	// decay is the factor of a weight for each minute. It halves weights in about six and
	// a half minutes.
	decay = 0.9
	// maxDecays is how many decays are worth computing. After them less than 0.00003 of a
	// weight is left.
	maxDecays = 100
)

type stripe[K comparable, P any] struct {
	mu struct {
		sync.Mutex
		// capacity bounds accounts.
		capacity int
		// byHash finds an account by the hash of its key. Hashes have 64 bits and a
		// random seed. Collisions are ignored: two keys would share an account.
		byHash   map[uint64]*keyAccount[K, P]
		accounts []*keyAccount[K, P]
		// weights are the weights of accounts, by index, in the unit of charge.weight. A
		// scan for the lightest account reads this slice alone.
		weights []float64
		// minute is the minute of the last decay.
		minute int64
		// total is the cost of all requests since the start.
		total serverreport.ListCost
	}
}

// keyAccount is the account of one key. The stripe's lock guards it.
type keyAccount[K, P any] struct {
	hash uint64
	// index is the position in the stripe's accounts and weights.
	index int
	// key is never written to, because partners of the other table point to it. An account
	// that is used again gets a new key.
	key      *K
	cost     tenMinutes
	partners partners[P]
	// series is set for shapes only.
	series *series
}

func newHeavyHitters[K comparable, P any](capacity int, clone func(K) K) *heavyHitters[K, P] {
	h := &heavyHitters[K, P]{seed: maphash.MakeSeed(), clone: clone}
	for i := range h.stripes {
		h.stripes[i].mu.capacity = capacity / stripes
		h.stripes[i].mu.byHash = map[uint64]*keyAccount[K, P]{}
	}
	return h
}

// find returns a key's hash and stripe.
func (h *heavyHitters[K, P]) find(key K) (uint64, *stripe[K, P]) {
	hash := maphash.Comparable(h.seed, key)
	return hash, &h.stripes[hash%stripes]
}

// addLocked adds a request to the account of a key and returns that account. fresh
// reports whether the key had no account.
func (s *stripe[K, P]) addLocked(hash uint64, key K, c *charge, clone func(K) K) (account *keyAccount[K, P], fresh bool) {
	s.decayLocked(c.minute)
	account = s.mu.byHash[hash]
	if fresh = account == nil; fresh {
		account = s.takeLocked()
		cloned := clone(key)
		*account = keyAccount[K, P]{hash: hash, index: account.index, key: &cloned}
		s.mu.byHash[hash] = account
	}
	s.mu.weights[account.index] += c.weight()
	account.cost.add(c.minute, &c.cost)
	s.mu.total.Add(&c.cost)
	return account, fresh
}

// takeLocked returns an account for a new key: an additional account, or the lightest
// account if the stripe is full. The caller resets it, except for its index and weight.
func (s *stripe[K, P]) takeLocked() *keyAccount[K, P] {
	if n := len(s.mu.accounts); n < s.mu.capacity {
		account := &keyAccount[K, P]{index: n}
		s.mu.accounts = append(s.mu.accounts, account)
		s.mu.weights = append(s.mu.weights, 0)
		return account
	}
	least := 0
	for i, w := range s.mu.weights {
		if w < s.mu.weights[least] {
			least = i
		}
	}
	account := s.mu.accounts[least]
	delete(s.mu.byHash, account.hash)
	return account
}

// decayLocked decays the weights by the minutes since the last decay.
func (s *stripe[K, P]) decayLocked(minute int64) {
	if s.mu.minute == 0 {
		s.mu.minute = minute
	}
	for ; s.mu.minute < minute; s.mu.minute++ {
		if minute-s.mu.minute > maxDecays {
			s.mu.minute = minute - maxDecays
		}
		for i := range s.mu.weights {
			s.mu.weights[i] *= decay
		}
	}
}

// dropPartners drops the partners whose keys match from all accounts.
func (s *stripe[K, P]) dropPartners(match func(*P) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, account := range s.mu.accounts {
		for i := range account.partners {
			if p := &account.partners[i]; p.key != nil && match(p.key) {
				*p = partner[P]{}
			}
		}
	}
}

// remove drops the accounts whose keys match. The last accounts fill the gaps.
func (s *stripe[K, P]) remove(match func(*K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.mu.accounts) - 1; i >= 0; i-- {
		account := s.mu.accounts[i]
		if !match(account.key) {
			continue
		}
		delete(s.mu.byHash, account.hash)
		last := len(s.mu.accounts) - 1
		s.mu.accounts[i], s.mu.weights[i] = s.mu.accounts[last], s.mu.weights[last]
		s.mu.accounts[i].index = i
		s.mu.accounts[last] = nil
		s.mu.accounts, s.mu.weights = s.mu.accounts[:last], s.mu.weights[:last]
	}
}

// summary is what reports need of an account.
type summary[K, P any] struct {
	key      *K
	cost     serverreport.ListCost
	partners []partnerSummary[P]
}

// summaries returns the accounts that have requests in the last ten minutes, and the
// cost of all requests since the start.
func (h *heavyHitters[K, P]) summaries(minute int64) (all []summary[K, P], total serverreport.ListCost) {
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.Lock()
		for _, account := range s.mu.accounts {
			if cost := account.cost.sum(minute); cost.Requests > 0 {
				all = append(all, summary[K, P]{key: account.key, cost: cost, partners: account.partners.top(halfOf(minute))})
			}
		}
		total.Add(&s.mu.total)
		s.mu.Unlock()
	}
	return all, total
}
