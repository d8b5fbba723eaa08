package slo

import (
	"time"

	"github.com/millrace/millrace/internal/report"
)

// window is a sliding minute of slots, each a part of it and one that is being
// filled. Who has it guards it.
type window[T any] struct {
	slots []slot[T]
	// last is the slot that at returned last, from its beginning; nil before.
	last *slot[T]
	from time.Duration
}

type slot[T any] struct {
	// turn is how many slots long ago time began; it tells old slots from new ones.
	turn  int64
	value T
}

const (
	minute = time.Minute
	// fine is the part of a minute that resources are counted by, coarse that of
	// clients and subscriptions, of which there are many.
	fine   = 10 * time.Second
	coarse = 20 * time.Second
)

// at returns the slot of a time since the beginning, emptied by reset if it held
// an older one; nil if that is over for long.
func (w *window[T]) at(since, part time.Duration, reset func(*T)) *T {
	if w.last != nil && since >= w.from && since-w.from < part {
		return &w.last.value
	}
	n := int64(minute/part) + 1
	if w.slots == nil {
		w.slots = make([]slot[T], n)
		for i := range w.slots {
			w.slots[i].turn = -1
		}
	}
	turn := int64(since / part)
	s := &w.slots[turn%n]
	if s.turn > turn {
		return nil
	}
	if s.turn != turn {
		reset(&s.value)
		s.turn = turn
	}
	w.last, w.from = s, time.Duration(turn)*part
	return &s.value
}

// each calls use with the slots of the last minute.
func (w *window[T]) each(since, part time.Duration, use func(*T)) {
	oldest := int64(since/part) - int64(minute/part)
	for i := range w.slots {
		if s := &w.slots[i]; s.turn >= 0 && s.turn >= oldest {
			use(&s.value)
		}
	}
}

// burnWindows are those of Burn, in minutes.
const (
	burnShort, burnHour, burnLong = 5, 60, 360
)

// burn counts events by the minute, for the six hours that Burn tells of.
type burn struct {
	// minutes is nil before the first event.
	minutes *[burnLong]burnMinute
	newest  int64
}

type burnMinute struct{ all, late uint32 }

// at returns the minute of a time since the beginning.
func (b *burn) at(since time.Duration) *burnMinute {
	now := int64(since / minute)
	if b.minutes == nil {
		b.minutes, b.newest = new([burnLong]burnMinute), now
	}
	b.forget(now)
	return &b.minutes[now%burnLong]
}

// forget empties the minutes since the newest.
func (b *burn) forget(now int64) {
	if now-b.newest >= burnLong {
		clear(b.minutes[:])
		b.newest = now
	}
	for b.newest < now {
		b.newest++
		b.minutes[b.newest%burnLong] = burnMinute{}
	}
}

// budget is the part of the events that may be late.
const budget = 0.01

// sum counts the events of the last n minutes: all, and late ones.
func (b *burn) sum(since time.Duration, n int64) (all, late uint64) {
	if b.minutes == nil {
		return 0, 0
	}
	now := int64(since / minute)
	b.forget(now)
	for i := max(0, now-n+1); i <= now; i++ {
		m := b.minutes[i%burnLong]
		all, late = all+uint64(m.all), late+uint64(m.late)
	}
	return all, late
}

// burnSum is what several burns say together.
type burnSum struct{ all, late [3]uint64 }

func (s *burnSum) add(b *burn, since time.Duration) {
	for i, n := range []int64{burnShort, burnHour, burnLong} {
		all, late := b.sum(since, n)
		s.all[i], s.late[i] = s.all[i]+all, s.late[i]+late
	}
}

func (s *burnSum) burn() report.Burn {
	rate := func(i int) float64 {
		if s.all[i] == 0 {
			return 0
		}
		return float64(s.late[i]) / float64(s.all[i]) / budget
	}
	return report.Burn{FiveMinutes: rate(0), Hour: rate(1), SixHours: rate(2)}
}
