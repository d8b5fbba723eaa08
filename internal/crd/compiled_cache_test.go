package crd

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// countedSlot is a slot that counts how often it is filled.
type countedSlot struct {
	*compiledSlot[int]
	busy, retired atomic.Bool
	fills         atomic.Int32
}

func newCountedSlot(s *compiledCache) *countedSlot {
	t := &countedSlot{}
	t.compiledSlot = newCompiledSlot[int](s, t.busy.Load, t.retired.Load)
	return t
}

func (t *countedSlot) use(size int64) {
	_, _ = t.get(func() (*int, int64, error) {
		t.fills.Add(1)
		return new(int), size, nil
	})
}

func wantFills(t *testing.T, what string, things []*countedSlot, want ...int32) {
	t.Helper()
	for i, thing := range things {
		if got := thing.fills.Load(); got != want[i] {
			t.Errorf("%s: slot %d was filled %d times, want %d", what, i, got, want[i])
		}
	}
}

// newCountedSlots makes a shelf with room for some things of size 10, and more things than
// that. use uses one of them, a second after the last.
func newCountedSlots(room, things int) (s *compiledCache, all []*countedSlot, use func(i int)) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s = newCompiledCache(int64(10*room), time.Hour, clock)
	for range things {
		all = append(all, newCountedSlot(s))
	}
	return s, all, func(i int) {
		clock.SetTime(clock.Now().Add(time.Second))
		all[i].use(10)
	}
}

func totalFills(things []*countedSlot) (n int) {
	for _, thing := range things {
		n += int(thing.fills.Load())
	}
	return n
}

func TestShelfHasABound(t *testing.T) {
	t.Parallel()
	s, things, use := newCountedSlots(10, 100)
	things[0].busy.Store(true)
	for i := range things {
		use(i)
		if n, bytes := s.usage(); n > 10 || bytes != int64(10*n) {
			t.Fatalf("holds %d things of %d bytes", n, bytes)
		}
		if things[0].empty() || things[i].empty() {
			t.Fatal("what is in use, or new, was dropped")
		}
	}
	for i := range things {
		things[i].busy.Store(true)
	}
	use(50)
	use(51)
	if n, bytes := s.usage(); n < 11 || bytes != int64(10*n) {
		t.Errorf("with all in use holds %d things of %d bytes", n, bytes)
	}
	for i := range things {
		things[i].busy.Store(false)
	}
	use(52)
	if n, _ := s.usage(); n > 10 {
		t.Errorf("holds %d things when none is in use any more", n)
	}
}

func TestShelfKeepsWhatIsUsedOften(t *testing.T) {
	t.Parallel()
	_, things, use := newCountedSlots(50, 1005)
	for i := 5; i < len(things); i++ {
		use(i % 5)
		use(i)
	}
	if n := totalFills(things[:5]); n > 100 {
		t.Errorf("5 things that are used 200 times each were filled %d times", n)
	}
}

func TestShelfKeepsSomeOfWhatIsUsedInTurn(t *testing.T) {
	t.Parallel()
	_, things, use := newCountedSlots(90, 100)
	for range 20 {
		for i := range things {
			use(i)
		}
	}
	if n := totalFills(things); n > 1000 {
		t.Errorf("100 things with room for 90 were filled %d times in 2000 uses", n)
	}
}

func TestShelfDropsWhatIsIdle(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := newCompiledCache(1000, time.Minute, clock)
	things := []*countedSlot{newCountedSlot(s), newCountedSlot(s), newCountedSlot(s)}
	for _, thing := range things {
		thing.use(10)
	}
	things[1].busy.Store(true)
	things[2].retired.Store(true)
	idle := newCountedSlot(s)
	idle.use(10)
	clock.SetTime(clock.Now().Add(time.Minute - 1))
	s.sweep()
	idle.use(10)
	wantFills(t, "before a minute is over", append(things, idle), 1, 1, 1, 1)
	clock.SetTime(clock.Now().Add(1))
	s.sweep()
	idle.use(10)
	for _, thing := range things {
		thing.use(10)
	}
	wantFills(t, "after a minute", append(things, idle), 2, 1, 1, 1)
	if things[2].empty() {
		t.Error("what is kept was dropped")
	}
}

func TestSlotIsFilledOnce(t *testing.T) {
	t.Parallel()
	one := newCountedSlot(newCompiledCache(1000, time.Minute, clocktesting.NewFakePassiveClock(time.Unix(1000, 0))))
	if _, err := one.get(func() (*int, int64, error) { return nil, 0, errors.New("broken") }); err == nil || !one.empty() {
		t.Error("a failure filled the slot")
	}
	var users sync.WaitGroup
	for range 20 {
		users.Go(func() { one.use(1) })
	}
	users.Wait()
	if got := one.fills.Load(); got != 1 {
		t.Errorf("filled %d times for twenty users", got)
	}
}

func TestShelfTellsSizes(t *testing.T) {
	t.Parallel()
	s := newCompiledCache(100, time.Minute, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	one, two, never := newCountedSlot(s), newCountedSlot(s), newCountedSlot(s)
	one.use(10)
	two.use(7)
	if got := s.size(&one.entry, &never.entry); got != 10 {
		t.Errorf("one takes %d, want 10", got)
	}
	s.remove(&one.entry)
	if got := s.size(&one.entry, &two.entry); got != 7 {
		t.Errorf("after one was removed: %d, want 7", got)
	}
}
