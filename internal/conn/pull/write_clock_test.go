package pull_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/pull"
)

// clockedWrites makes writes that follow each other at once, as often as it is told, from a
// moment on. Each takes three quarters of its period. It returns the last.
func clockedWrites(c *pull.WriteClock, from time.Time, period time.Duration, count int) (last *pull.Write) {
	for i := range count {
		last = &pull.Write{FillBegan: from.Add(time.Duration(i) * period)}
		c.Begin(last)
		last.Began, last.Ended = last.FillBegan.Add(period/4), last.FillBegan.Add(period)
		c.Complete(last)
	}
	return last
}

// TestLongWriteIsRemembered has a client stand still for 12 s, and a connection that is never
// idle afterwards. What waited meanwhile is sent by many short writes: each still knows of the
// long one. 100 s later it is forgotten.
func TestLongWriteIsRemembered(t *testing.T) {
	c, began := &pull.WriteClock{}, pull.Now()
	long := clockedWrites(c, began, 16*time.Second, 1)
	soon := clockedWrites(c, long.Ended, time.Millisecond, 1000)
	if soon.BusySince.After(long.Began) || soon.Writing < 12*time.Second {
		t.Errorf("a second later: busy since %v after the long write began, %v of it in writes", soon.BusySince.Sub(long.Began), soon.Writing)
	}
	late := clockedWrites(c, soon.Ended, time.Millisecond, 100_000)
	if past := late.Began.Sub(late.BusySince); past > 3*time.Second {
		t.Errorf("100 s later: busy for %v", past)
	}
}
