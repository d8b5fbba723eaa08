package usage

import (
	"math"
	"math/rand/v2"
	"time"
)

// meter lets the clients of a storm list at a rate, first come, first served. Who
// comes too early gets a ticket, and is let in when the tickets up to its own are due.
// Which those are follows the rate, and that the size of the fleet, of which more may
// be seen while the storm goes on. A ticket that nobody came with goes to who comes
// next.
type meter struct {
	// rate is in tickets a second, due how many were due at a time.
	rate float64
	due  float64
	at   time.Time
	// last is the newest ticket.
	last float64
	// spare are tickets that went unused.
	spare int
	// held are tickets by client. order is the same in order, and has some that were
	// used, too.
	held  map[uint64]ticket
	order []turn
}

type ticket struct {
	number float64
	// back is when the client was told to come.
	back time.Time
}

type turn struct {
	client uint64
	number float64
}

const (
	// grace is how late a client may come, in seconds, and early how much before its
	// time: clients wait whole seconds.
	grace = 15
	early = 1
	// leastRate is for small fleets, and for those of which little is known yet, in
	// clients a minute.
	leastRate = 10
	// maxSpare bounds the burst after a time in which nobody came.
	maxSpare = 10
	// maxRetryAfter is the longest wait that clients are told. Those whose time is
	// later come to ask again meanwhile, so that one who gives up does not keep a
	// ticket for long.
	maxRetryAfter = time.Minute
	// maxHeld is how many tickets are kept over all storms.
	maxHeld = 16_384
)

func newMeter(now time.Time) *meter { return &meter{due: 1, at: now, held: map[uint64]ticket{}} }

// setRate sets how many clients list in a minute.
func (m *meter) setRate(now time.Time, clients float64) {
	m.advance(now)
	m.rate = max(clients, leastRate) / 60
}

func (m *meter) advance(now time.Time) {
	if d := now.Sub(m.at); d > 0 {
		m.due += m.rate * d.Seconds()
		m.at = now
	}
}

// ask lets a client list now, with 0, or tells it when to come back. room is how
// many more tickets may be kept.
func (m *meter) ask(now time.Time, client uint64, room int) time.Duration {
	m.expire(now)
	if t, ok := m.held[client]; ok {
		if t.number <= m.due+early*m.rate {
			delete(m.held, client)
			return 0
		}
		return m.hold(now, client, t.number)
	}
	if m.spare > 0 {
		m.spare--
		return 0
	}
	next := max(m.last+1, m.due)
	if next <= m.due {
		m.last = next
		return 0
	}
	if room <= 0 {
		return retryAfter(math.MaxInt64)
	}
	m.last = next
	m.order = append(m.order, turn{client, next})
	return m.hold(now, client, next)
}

// hold keeps a client's ticket and tells it when to come.
func (m *meter) hold(now time.Time, client uint64, number float64) time.Duration {
	wait := retryAfter(time.Duration((number - m.due) / m.rate * float64(time.Second)))
	m.held[client] = ticket{number, now.Add(wait)}
	return wait
}

// expire takes tickets back that nobody came with.
func (m *meter) expire(now time.Time) {
	m.advance(now)
	for len(m.order) > 0 {
		first := m.order[0]
		t, ok := m.held[first.client]
		if ok = ok && t.number == first.number; ok {
			if m.due-first.number < grace*m.rate || now.Sub(t.back) < grace*time.Second {
				return
			}
			delete(m.held, first.client)
			m.spare = min(m.spare+1, maxSpare)
		}
		m.order = m.order[1:]
	}
}

// retryAfter is a wait in whole seconds, 1 at least. Long ones are shortened, each
// to another length.
func retryAfter(wait time.Duration) time.Duration {
	if wait > maxRetryAfter {
		wait = maxRetryAfter/2 + rand.N(maxRetryAfter/2)
	}
	return max(1, (wait+time.Second-1)/time.Second) * time.Second
}
