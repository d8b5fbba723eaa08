package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// errorBudget is the share of events that may be late.
const errorBudget = 0.01

// burnWindows are the lengths of the windows of serverreport.Burn, in minutes.
var burnWindows = [...]int64{5, 60, burnRingMinutes}

// burnRingMinutes is the length of the longest window.
const burnRingMinutes = 360

// burnCounter counts spans by the minute for the six hours of serverreport.Burn. Minutes have
// numbers, from 0 at Watches.startedAt. The zero value is empty.
type burnCounter struct {
	// minutes is a ring: minute n is at n % burnRingMinutes. It is nil before the first span.
	minutes *[burnRingMinutes]burnMinute
	// newest is the number of the newest minute.
	newest int64
}

type burnMinute struct{ all, late uint32 }

// minuteFor returns the minute of an offset from Watches.startedAt.
func (b *burnCounter) minuteFor(offset time.Duration) *burnMinute {
	number := int64(offset / time.Minute)
	if b.minutes == nil {
		b.minutes, b.newest = new([burnRingMinutes]burnMinute), number
	}
	b.clearUntil(number)
	return &b.minutes[number%burnRingMinutes]
}

// clearUntil empties the minutes after the newest one, up to the minute number.
func (b *burnCounter) clearUntil(number int64) {
	if number-b.newest >= burnRingMinutes {
		clear(b.minutes[:])
		b.newest = number
	}
	for b.newest < number {
		b.newest++
		b.minutes[b.newest%burnRingMinutes] = burnMinute{}
	}
}

// sum returns the spans, and the late spans, of the last n minutes. The minute of offset is
// the last of them, so the sum is of n-1 to n minutes.
func (b *burnCounter) sum(offset time.Duration, n int64) (all, late uint64) {
	if b.minutes == nil {
		return 0, 0
	}
	last := int64(offset / time.Minute)
	b.clearUntil(last)
	for i := max(0, last-n+1); i <= last; i++ {
		m := b.minutes[i%burnRingMinutes]
		all, late = all+uint64(m.all), late+uint64(m.late)
	}
	return all, late
}

// burnSum adds up burn counters, for each of burnWindows.
type burnSum struct{ all, late [len(burnWindows)]uint64 }

func (s *burnSum) add(b *burnCounter, offset time.Duration) {
	for i, minutes := range burnWindows {
		all, late := b.sum(offset, minutes)
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
