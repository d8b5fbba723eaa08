package usage

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// BudgetConfig configures Budgets.
type BudgetConfig struct {
	// CPUSeconds and Bytes are what a client may use in a minute. Zero means no limit.
	CPUSeconds, Bytes float64
	// Clock is for tests. Nil means the real clock.
	Clock clock.PassiveClock
}

// Budgets bound what each client may use: a user at an address. The name of a program is
// left out, because a client could send another name each time.
//
// What a request will cost is not known when it begins. So a client may begin a request as
// long as it has used less than a minute's budget. What it has used shrinks by a sixtieth
// of the budget each second. A client that has overdrawn waits until the excess is paid,
// for nine minutes at most. A single large LIST must not lock a client out for a day.
//
// Clients choose their names, so the table is bounded: 16,384 clients, 1 MB. If a stripe has
// no room for a client, its clients that have paid all are dropped. If no client has, the
// client that owes least is dropped.
//
// The methods may be called by any goroutine. A nil Budgets bounds nobody.
type Budgets struct {
	cfg     BudgetConfig
	seed    maphash.Seed
	stripes [stripes]budgetStripe
}

type budgetStripe struct {
	mu struct {
		sync.Mutex
		spent map[uint64]expense
	}
}

// expense is the CPU and the bytes that a client owed at a time, as shares of the limits.
type expense struct {
	cpu, bytes float64
	at         time.Time
}

const (
	budgetWindow = time.Minute
	// maxExpense bounds what a client can owe, in budgets of a minute.
	maxExpense = 10
	// stripeBudgets bounds the clients of a stripe.
	stripeBudgets = 16_384 / stripes
)

// NewBudgets makes budgets. It returns nil if there is no limit.
func NewBudgets(cfg BudgetConfig) *Budgets {
	if cfg.CPUSeconds <= 0 && cfg.Bytes <= 0 {
		return nil
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	b := &Budgets{cfg: cfg, seed: maphash.MakeSeed()}
	for i := range b.stripes {
		b.stripes[i].mu.spent = map[uint64]expense{}
	}
	return b
}

// Overdraft says which budget a client has used up, and when it may try again.
type Overdraft struct {
	// Budget is "cpu" or "bytes". It is "" if the client may send a request.
	Budget string
	// RetryAfter is a number of whole seconds, a minute at most.
	RetryAfter time.Duration
}

// Check reports whether a user at an address, as in "10.0.0.1:4711", may send a request.
func (b *Budgets) Check(user, address string) Overdraft {
	if b == nil {
		return Overdraft{}
	}
	now := b.cfg.Clock.Now()
	hash, s := b.find(user, address)
	s.mu.Lock()
	spent := s.mu.spent[hash].leftAt(now)
	s.mu.Unlock()
	excess, budget := spent.cpu-1, "cpu"
	if spent.bytes-1 > excess {
		excess, budget = spent.bytes-1, "bytes"
	}
	if excess < 0 {
		return Overdraft{}
	}
	seconds := math.Floor(excess*budgetWindow.Seconds()) + 1
	return Overdraft{Budget: budget, RetryAfter: time.Duration(min(seconds, budgetWindow.Seconds())) * time.Second}
}

// Charge adds bytes that a user at an address was sent.
func (b *Budgets) Charge(user, address string, bytes uint64) {
	b.chargeCost(user, address, &serverreport.ListCost{Bytes: bytes})
}

// chargeCost adds the cost of a request to what its client has used.
func (b *Budgets) chargeCost(user, address string, cost *serverreport.ListCost) {
	if b == nil {
		return
	}
	now := b.cfg.Clock.Now()
	hash, s := b.find(user, address)
	s.mu.Lock()
	defer s.mu.Unlock()
	spent := s.mu.spent[hash].leftAt(now)
	if b.cfg.CPUSeconds > 0 {
		spent.cpu += cost.CPU / b.cfg.CPUSeconds
	}
	if b.cfg.Bytes > 0 {
		spent.bytes += float64(cost.Bytes) / b.cfg.Bytes
	}
	spent.cpu, spent.bytes = min(spent.cpu, maxExpense), min(spent.bytes, maxExpense)
	if _, known := s.mu.spent[hash]; !known && len(s.mu.spent) >= stripeBudgets {
		s.makeRoomLocked(now)
	}
	s.mu.spent[hash] = spent
}

func (b *Budgets) find(user, address string) (uint64, *budgetStripe) {
	var h maphash.Hash
	h.SetSeed(b.seed)
	_, _ = h.WriteString(host(address))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(serverreport.NewClient(user, "").User)
	hash := h.Sum64()
	return hash, &b.stripes[hash%stripes]
}

// makeRoomLocked drops clients that have paid all, or the client that owes least if
// no client has paid all.
func (s *budgetStripe) makeRoomLocked(now time.Time) {
	least, lowest := uint64(0), math.Inf(1)
	for hash, spent := range s.mu.spent {
		spent = spent.leftAt(now)
		used := spent.cpu + spent.bytes
		if used == 0 {
			delete(s.mu.spent, hash)
		}
		if used < lowest {
			least, lowest = hash, used
		}
	}
	delete(s.mu.spent, least)
}

// leftAt returns what is left of the expense at now.
func (s expense) leftAt(now time.Time) expense {
	paid := now.Sub(s.at).Seconds() / budgetWindow.Seconds()
	return expense{cpu: max(0, s.cpu-paid), bytes: max(0, s.bytes-paid), at: now}
}
