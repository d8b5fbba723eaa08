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

func newCountedSlot(c *compiledCache) *countedSlot {
	s := &countedSlot{}
	s.compiledSlot = newCompiledSlot[int](c, s.busy.Load, s.retired.Load)
	return s
}

func (s *countedSlot) use(size int64) {
	_, _ = s.get(func() (*int, int64, error) {
		s.fills.Add(1)
		return new(int), size, nil
	})
}

func wantFills(t *testing.T, when string, slots []*countedSlot, want ...int32) {
	t.Helper()
	for i, slot := range slots {
		if got := slot.fills.Load(); got != want[i] {
			t.Errorf("%s: slot %d was filled %d times, want %d", when, i, got, want[i])
		}
	}
}

// newCountedSlots makes a cache that holds fit values of size 10, and more slots than that.
// use uses one slot, a second after the last use.
func newCountedSlots(fit, slots int) (c *compiledCache, all []*countedSlot, use func(i int)) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c = newCompiledCache(int64(10*fit), time.Hour, clock)
	for range slots {
		all = append(all, newCountedSlot(c))
	}
	return c, all, func(i int) {
		clock.SetTime(clock.Now().Add(time.Second))
		all[i].use(10)
	}
}

func totalFills(slots []*countedSlot) (n int) {
	for _, slot := range slots {
		n += int(slot.fills.Load())
	}
	return n
}

func TestCompiledCacheIsBounded(t *testing.T) {
	t.Parallel()
	c, slots, use := newCountedSlots(10, 100)
	slots[0].busy.Store(true)
	for i := range slots {
		use(i)
		if n, bytes := c.usage(); n > 10 || bytes != int64(10*n) {
			t.Fatalf("the cache holds %d values of %d bytes", n, bytes)
		}
		if slots[0].empty() || slots[i].empty() {
			t.Fatal("a value that is in use or new was dropped")
		}
	}
	for i := range slots {
		slots[i].busy.Store(true)
	}
	use(50)
	use(51)
	if n, bytes := c.usage(); n < 11 || bytes != int64(10*n) {
		t.Errorf("with all values in use the cache holds %d values of %d bytes", n, bytes)
	}
	for i := range slots {
		slots[i].busy.Store(false)
	}
	use(52)
	if n, _ := c.usage(); n > 10 {
		t.Errorf("the cache holds %d values when none is in use any longer", n)
	}
}

func TestCompiledCacheKeepsFrequentlyUsed(t *testing.T) {
	t.Parallel()
	_, slots, use := newCountedSlots(50, 1005)
	for i := 5; i < len(slots); i++ {
		use(i % 5)
		use(i)
	}
	if n := totalFills(slots[:5]); n > 100 {
		t.Errorf("5 slots that are used 200 times each were filled %d times", n)
	}
}

func TestCompiledCacheKeepsMostOfACycle(t *testing.T) {
	t.Parallel()
	_, slots, use := newCountedSlots(90, 100)
	for range 20 {
		for i := range slots {
			use(i)
		}
	}
	if n := totalFills(slots); n > 1000 {
		t.Errorf("100 slots were filled %d times in 2000 uses, although 90 of them fit", n)
	}
}

func TestCompiledCacheDropsIdle(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := newCompiledCache(1000, time.Minute, clock)
	slots := []*countedSlot{newCountedSlot(c), newCountedSlot(c), newCountedSlot(c)}
	for _, slot := range slots {
		slot.use(10)
	}
	slots[1].busy.Store(true)
	slots[2].retired.Store(true)
	idle := newCountedSlot(c)
	idle.use(10)
	clock.SetTime(clock.Now().Add(time.Minute - 1))
	c.sweep()
	idle.use(10)
	wantFills(t, "before a minute is over", append(slots, idle), 1, 1, 1, 1)
	clock.SetTime(clock.Now().Add(1))
	c.sweep()
	idle.use(10)
	for _, slot := range slots {
		slot.use(10)
	}
	wantFills(t, "after a minute", append(slots, idle), 2, 1, 1, 1)
	if slots[2].empty() {
		t.Error("a value that cannot be compiled again was dropped")
	}
}

func TestCompiledSlotIsFilledOnce(t *testing.T) {
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
		t.Errorf("the slot was filled %d times for twenty users", got)
	}
}

func TestCompiledCacheSizes(t *testing.T) {
	t.Parallel()
	c := newCompiledCache(100, time.Minute, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	one, two, never := newCountedSlot(c), newCountedSlot(c), newCountedSlot(c)
	one.use(10)
	two.use(7)
	if got := c.size(&one.entry, &never.entry); got != 10 {
		t.Errorf("the size of the filled slot is %d, want 10", got)
	}
	c.remove(&one.entry)
	if got := c.size(&one.entry, &two.entry); got != 7 {
		t.Errorf("after its removal, the size of the other slot is %d, want 7", got)
	}
}
