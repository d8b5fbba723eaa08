package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// window is a sliding minute. It is a ring of slots that are used again: those of the
// last minute, and one that is being filled. The zero value is empty. The owner's lock
// guards a window.
//
// All calls for a window have the same width, which is that of its slots.
type window[T any] struct {
	slots []slot[T]
	// last is the slot that at returned last, nil before. from is its beginning.
	last *slot[T]
	from time.Duration
}

type slot[T any] struct {
	// number is the time of the slot in units of the width, since the set's beginning. It
	// is -1 for a slot that was never used.
	number int64
	value  T
}

const (
	minute = time.Minute
	// fineSlot is the width of resources' slots. Clients and subscriptions are many, so
	// theirs have the width coarseSlot.
	fineSlot   = 10 * time.Second
	coarseSlot = 20 * time.Second
)

// at returns the slot of a time since the set's beginning. reset empties a slot that is
// used again. at returns nil if the time has left the window.
func (w *window[T]) at(since, width time.Duration, reset func(*T)) *T {
	if w.last != nil && since >= w.from && since-w.from < width {
		return &w.last.value
	}
	n := int64(minute/width) + 1
	if w.slots == nil {
		w.slots = make([]slot[T], n)
		for i := range w.slots {
			w.slots[i].number = -1
		}
	}
	number := int64(since / width)
	s := &w.slots[number%n]
	if s.number > number {
		return nil
	}
	if s.number != number {
		reset(&s.value)
		s.number = number
	}
	w.last, w.from = s, time.Duration(number)*width
	return &s.value
}

// each calls use with the slots of the minute before a time.
func (w *window[T]) each(since, width time.Duration, use func(*T)) {
	oldest := int64(since/width) - int64(minute/width)
	for i := range w.slots {
		if s := &w.slots[i]; s.number >= 0 && s.number >= oldest {
			use(&s.value)
		}
	}
}

// The windows of serverreport.Burn, in minutes.
const (
	burnShort, burnHour, burnLong = 5, 60, 360
)

// burnCounter counts events by the minute for the six hours of serverreport.Burn. The zero
// value is empty.
type burnCounter struct {
	// minutes is a ring: minute n is at n % burnLong. It is nil before the first event.
	minutes *[burnLong]burnMinute
	newest  int64
}

type burnMinute struct{ all, late uint32 }

// at returns the minute of a time since the set's beginning.
func (b *burnCounter) at(since time.Duration) *burnMinute {
	now := int64(since / minute)
	if b.minutes == nil {
		b.minutes, b.newest = new([burnLong]burnMinute), now
	}
	b.clearUntil(now)
	return &b.minutes[now%burnLong]
}

// clearUntil empties the minutes after the newest one, up to now.
func (b *burnCounter) clearUntil(now int64) {
	if now-b.newest >= burnLong {
		clear(b.minutes[:])
		b.newest = now
	}
	for b.newest < now {
		b.newest++
		b.minutes[b.newest%burnLong] = burnMinute{}
	}
}

// errorBudget is the share of events that may be late.
const errorBudget = 0.01

// sum returns the events, and the late events, of the last n minutes.
func (b *burnCounter) sum(since time.Duration, n int64) (all, late uint64) {
	if b.minutes == nil {
		return 0, 0
	}
	now := int64(since / minute)
	b.clearUntil(now)
	for i := max(0, now-n+1); i <= now; i++ {
		m := b.minutes[i%burnLong]
		all, late = all+uint64(m.all), late+uint64(m.late)
	}
	return all, late
}

// burnSum adds up burn counters, for each of the three windows.
type burnSum struct{ all, late [3]uint64 }

func (s *burnSum) add(b *burnCounter, since time.Duration) {
	for i, n := range []int64{burnShort, burnHour, burnLong} {
		all, late := b.sum(since, n)
		s.all[i], s.late[i] = s.all[i]+all, s.late[i]+late
	}
}

// burn returns the rates at which the error budget is used up.
func (s *burnSum) burn() serverreport.Burn {
	rate := func(i int) float64 {
		if s.all[i] == 0 {
			return 0
		}
		return float64(s.late[i]) / float64(s.all[i]) / errorBudget
	}
	return serverreport.Burn{FiveMinutes: rate(0), Hour: rate(1), SixHours: rate(2)}
}
