package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// window is a sliding minute. It is a ring of slots that are used again: those of the
// last minute, and one that is being filled. The zero value is empty. The owner's lock
// guards a window.
//
// All calls for a window have the same width: the width of its slots. Offsets are from
// Watches.startedAt.
type window[T any] struct {
	slots []slot[T]
	// last is the slot that slotFor returned last. It is nil before the first call.
	last *slot[T]
	// lastBegin is the offset at which last begins.
	lastBegin time.Duration
}

type slot[T any] struct {
	// number is the offset of the slot in units of the width. It is -1 for a slot that was
	// never used.
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

// slotFor returns the slot of an offset. reset empties a slot that is used again. It
// returns nil if the offset has left the window.
func (w *window[T]) slotFor(offset, width time.Duration, reset func(*T)) *T {
	if w.last != nil && offset >= w.lastBegin && offset-w.lastBegin < width {
		return &w.last.value
	}
	n := int64(minute/width) + 1
	if w.slots == nil {
		w.slots = make([]slot[T], n)
		for i := range w.slots {
			w.slots[i].number = -1
		}
	}
	number := int64(offset / width)
	s := &w.slots[number%n]
	if s.number > number {
		return nil
	}
	if s.number != number {
		reset(&s.value)
		s.number = number
	}
	w.last, w.lastBegin = s, time.Duration(number)*width
	return &s.value
}

// eachSlot calls use with the slots of the minute before an offset.
func (w *window[T]) eachSlot(offset, width time.Duration, use func(*T)) {
	oldest := int64(offset/width) - int64(minute/width)
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

// minuteFor returns the minute of an offset.
func (b *burnCounter) minuteFor(offset time.Duration) *burnMinute {
	number := int64(offset / minute)
	if b.minutes == nil {
		b.minutes, b.newest = new([burnLong]burnMinute), number
	}
	b.clearUntil(number)
	return &b.minutes[number%burnLong]
}

// clearUntil empties the minutes after the newest one, up to a number.
func (b *burnCounter) clearUntil(number int64) {
	if number-b.newest >= burnLong {
		clear(b.minutes[:])
		b.newest = number
	}
	for b.newest < number {
		b.newest++
		b.minutes[b.newest%burnLong] = burnMinute{}
	}
}

// errorBudget is the share of events that may be late.
const errorBudget = 0.01

// sum returns the events, and the late events, of the n minutes before an offset.
func (b *burnCounter) sum(offset time.Duration, n int64) (all, late uint64) {
	if b.minutes == nil {
		return 0, 0
	}
	last := int64(offset / minute)
	b.clearUntil(last)
	for i := max(0, last-n+1); i <= last; i++ {
		m := b.minutes[i%burnLong]
		all, late = all+uint64(m.all), late+uint64(m.late)
	}
	return all, late
}

// burnSum adds up burn counters, for each of the three windows.
type burnSum struct{ all, late [3]uint64 }

func (s *burnSum) add(b *burnCounter, offset time.Duration) {
	for i, n := range []int64{burnShort, burnHour, burnLong} {
		all, late := b.sum(offset, n)
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
