package usage

import (
	"math"
	"math/rand/v2"
	"time"
)

// pacer admits the clients of a storm at a rate, first come, first served.
//
// Tickets have ascending numbers, and become due in that order at the rate. A client
// whose ticket is due is admitted. A client that comes too early keeps its ticket, and
// is told how long to wait. Times are computed from numbers only when a client asks,
// because the rate changes during a storm. It follows the size of the group, of which more
// and more becomes known. Numbers are fractional, because dueUpTo advances by rate × time.
//
// A client may give up. Its ticket is then given to the next client that comes.
//
// The detector's lock guards a pacer.
type pacer struct {
	// rate is in tickets a second.
	rate float64
	// dueUpTo is the number up to which tickets were due at advancedAt.
	dueUpTo    float64
	advancedAt time.Time
	// lastIssued is the number of the newest ticket.
	lastIssued float64
	// unused counts due tickets whose clients gave up. It is at most maxUnused.
	unused int
	// tickets are the tickets of waiting clients, by client.
	tickets map[uint64]ticket
	// queue lists issued tickets by number. It may still contain tickets that were used.
	queue []queuedTicket
}

type ticket struct {
	number float64
	// retryAt is the time at which the client was told to retry.
	retryAt time.Time
}

type queuedTicket struct {
	client uint64
	number float64
}

const (
	// graceSeconds is how late a client may come without losing its ticket.
	graceSeconds = 15
	// earlySeconds is how early a client may come: clients wait whole seconds.
	earlySeconds = 1
	// minClientsPerMinute is the rate for small groups, and while few of a group's
	// clients are known.
	minClientsPerMinute = 10
	// maxUnused bounds how many clients are admitted together in the place of clients that
	// gave up.
	maxUnused = 10
	// maxRetryAfter is the longest wait that a client is told. A client whose ticket is due
	// later asks again before that. So the ticket of a client that has given up is free
	// within little more than a minute.
	maxRetryAfter = time.Minute
	// maxTickets bounds the tickets of all storms together.
	maxTickets = 16_384
)

// newPacer makes a pacer that admits its first client immediately.
func newPacer(now time.Time) *pacer {
	return &pacer{dueUpTo: 1, advancedAt: now, tickets: map[uint64]ticket{}}
}

// setRate sets how many clients are admitted in a minute.
func (p *pacer) setRate(now time.Time, clients float64) {
	p.advance(now)
	p.rate = max(clients, minClientsPerMinute) / 60
}

// advance makes due the tickets of the time since the last call.
func (p *pacer) advance(now time.Time) {
	if d := now.Sub(p.advancedAt); d > 0 {
		p.dueUpTo += p.rate * d.Seconds()
		p.advancedAt = now
	}
}

// admit returns 0 if the client may list now, or else how long it is to wait. room is
// how many more tickets may be kept. Without room the client gets no ticket, and a long random
// wait.
func (p *pacer) admit(now time.Time, client uint64, room int) time.Duration {
	p.expire(now)
	if t, ok := p.tickets[client]; ok {
		if t.number <= p.dueUpTo+earlySeconds*p.rate {
			delete(p.tickets, client)
			return 0
		}
		return p.postpone(now, client, t.number)
	}
	if p.unused > 0 {
		p.unused--
		return 0
	}
	next := max(p.lastIssued+1, p.dueUpTo)
	if next <= p.dueUpTo {
		// Nobody is ahead of the client. It takes the next number, which is due immediately.
		p.lastIssued = next
		return 0
	}
	if room <= 0 {
		return retryAfter(math.MaxInt64)
	}
	p.lastIssued = next
	p.queue = append(p.queue, queuedTicket{client, next})
	return p.postpone(now, client, next)
}

// postpone keeps a client's ticket and returns how long the client is to wait.
func (p *pacer) postpone(now time.Time, client uint64, number float64) time.Duration {
	wait := retryAfter(time.Duration((number - p.dueUpTo) / p.rate * float64(time.Second)))
	p.tickets[client] = ticket{number, now.Add(wait)}
	return wait
}

// expire drops tickets that have been due for graceSeconds, if their clients are also
// that late.
func (p *pacer) expire(now time.Time) {
	p.advance(now)
	for len(p.queue) > 0 {
		first := p.queue[0]
		t, ok := p.tickets[first.client]
		if ok = ok && t.number == first.number; ok {
			if p.dueUpTo-first.number < graceSeconds*p.rate || now.Sub(t.retryAt) < graceSeconds*time.Second {
				return
			}
			delete(p.tickets, first.client)
			p.unused = min(p.unused+1, maxUnused)
		}
		p.queue = p.queue[1:]
	}
}

// retryAfter rounds a wait up to whole seconds, 1 at least. Waits above maxRetryAfter
// are replaced by a random one, so that clients do not come back together.
func retryAfter(wait time.Duration) time.Duration {
	if wait > maxRetryAfter {
		wait = maxRetryAfter/2 + rand.N(maxRetryAfter/2)
	}
	return max(1, (wait+time.Second-1)/time.Second) * time.Second
}
