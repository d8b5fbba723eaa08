package cache_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// TestLogKeepsItsLastEventsHoweverOld lets a client of a quiet resource resume after hours.
func TestLogKeepsItsLastEventsHoweverOld(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c, r := newLoaded(t, cache.Config{Clock: now, HistoryWindow: time.Minute})
	cursor, _, err := r.Log().Since(10)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11), put(pods+"b", "1", 12), put(pods+"a", "2", 13), remove(pods+"b", 14)))
	for range 3 {
		now.SetTime(now.Now().Add(time.Hour))
		if bytes := c.Expire(); bytes != 0 {
			t.Errorf("%d bytes were dropped", bytes)
		}
	}
	wantRevisions(t, r.Log(), 10, 11, 12, 13, 14)
	if got := revisions(t, r.Log(), cursor); len(got) != 4 {
		t.Errorf("a cursor from before the hours reads %v, want 4 events", got)
	}
	then, err := r.At(12)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "revision 12", then.Tree, map[string]string{"a": "1", "b": "1"})
	// The last 100 events are kept, and all young ones.
	for revision := int64(15); revision < 165; revision++ {
		c.Apply(t.Context(), apply(put(pods+"a", "3", revision)))
	}
	if events, _, _ := r.Log().Size(); events != 150 {
		t.Errorf("%d events are held, want the 150 that are young", events)
	}
	now.SetTime(now.Now().Add(time.Hour))
	c.Expire()
	if _, oldest, err := r.Log().Since(63); !errors.Is(err, cache.ErrExpired) || oldest != 64 {
		t.Errorf("Since(63) says %d, %v, want 64, ErrExpired", oldest, err)
	}
	c.Apply(t.Context(), apply(put(pods+"a", "3", 165)))
	if _, oldest, err := r.Log().Since(64); !errors.Is(err, cache.ErrExpired) || oldest != 65 {
		t.Errorf("Since(64) says %d, %v, want 65, ErrExpired", oldest, err)
	}
}

// TestOldEventsShareABound: the old events of all resources share one bound. A resource
// with few of them keeps them all.
func TestOldEventsShareABound(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	const share = 100_000
	c := newCache(cache.Config{Clock: now, HistoryWindow: time.Minute, HistoryBytes: 8 * share})
	load(t, c, 10)
	revision := int64(10)
	change := func(prefix string, times int, value string) {
		for range times {
			revision++
			c.Apply(t.Context(), apply(put(prefix+"a", value, revision)))
		}
	}
	var quiet, busy []*cache.Resource
	for i := range 20 {
		prefix := fmt.Sprintf("/registry/quiet%d/", i)
		quiet = append(quiet, c.Register(cache.Spec{Prefix: prefix}))
		change(prefix, 4, strings.Repeat("x", 100))
	}
	for i := range 20 {
		prefix := fmt.Sprintf("/registry/busy%d/", i)
		busy = append(busy, c.Register(cache.Spec{Prefix: prefix}))
		change(prefix, 99, strings.Repeat("x", 500))
	}
	c.Expire()
	if events, _, _ := busy[0].Log().Size(); events != 99 {
		t.Errorf("%d young events are held, want 99", events)
	}
	now.SetTime(now.Now().Add(time.Hour))
	c.Expire()
	held := int64(0)
	for _, r := range quiet {
		events, bytes, _ := r.Log().Size()
		if held += bytes; events != 4 {
			t.Errorf("a quiet resource holds %d events, want 4", events)
		}
	}
	for _, r := range busy {
		events, bytes, _ := r.Log().Size()
		if held += bytes; events < 3 || events > 20 {
			t.Errorf("a busy resource holds %d events, want an equal share of the rest", events)
		}
	}
	if held > share || held < share*3/4 {
		t.Errorf("%d bytes of old events are held, want about %d", held, share)
	}
	// The share also holds between sweeps. It grows again when other logs need less.
	change("/registry/busy0/", 50, strings.Repeat("x", 500))
	if events, _, _ := busy[0].Log().Size(); events != 50 {
		t.Errorf("%d events are held, want the 50 that are young", events)
	}
	for _, r := range busy[1:] {
		c.Apply(t.Context(), apply(remove(r.Prefix()+"a", revision+1)))
		revision++
		c.Release(r)
	}
	c.Expire()
	now.SetTime(now.Now().Add(time.Hour))
	c.Expire()
	if events, _, _ := busy[0].Log().Size(); events != 50 {
		t.Errorf("%d events are held when there is room, want 50", events)
	}
}

// TestAdoptedResourcesKeepOldEvents: unclaimed keys keep old events too.
func TestAdoptedResourcesKeepOldEvents(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := newCache(cache.Config{Clock: now, HistoryWindow: time.Minute})
	load(t, c, 10)
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11), put(pods+"a", "2", 12)))
	now.SetTime(now.Now().Add(time.Hour))
	c.Expire()
	r := c.Register(cache.Spec{Prefix: pods})
	wantRevisions(t, r.Log(), 10, 11, 12)
	now.SetTime(now.Now().Add(time.Hour))
	c.Expire()
	wantRevisions(t, r.Log(), 10, 11, 12)
}

// sweepClock pauses Expire between the sizes of the logs and the drop of events.
type sweepClock struct {
	clock.PassiveClock
	asked   atomic.Int32
	reached chan struct{}
	resume  chan struct{}
}

func (c *sweepClock) Since(t time.Time) time.Duration {
	if c.asked.Add(1) == 2 { // of the second log
		close(c.reached)
		<-c.resume
	}
	return c.PassiveClock.Since(t)
}

// TestAdoptionWhileEventsExpire: if the unclaimed log drops events while a resource
// adopts them, the resource's log has no gap.
func TestAdoptionWhileEventsExpire(t *testing.T) {
	t.Parallel()
	const last = 5000
	for attempt := range 40 {
		now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
		paused := &sweepClock{PassiveClock: now, reached: make(chan struct{}), resume: make(chan struct{})}
		c := newCache(cache.Config{Clock: paused, HistoryWindow: time.Minute, HistoryEvents: 2})
		c.Register(cache.Spec{Prefix: widgets})
		load(t, c, 10)
		c.Apply(t.Context(), apply(put(widgets+"a", "1", 11), put(widgets+"a", "2", 12)))
		var events []feed.Object
		for revision := int64(13); revision <= last; revision++ {
			events = append(events, put(pods+"a", "1", revision))
		}
		c.Apply(t.Context(), events)
		now.SetTime(now.Now().Add(time.Hour))
		var swept sync.WaitGroup
		swept.Go(func() { c.Expire() })
		<-paused.reached
		go func() {
			for range attempt {
				runtime.Gosched()
			}
			close(paused.resume)
		}()
		r := c.Register(cache.Spec{Prefix: pods})
		swept.Wait()
		_, oldest, _ := r.Log().Since(0)
		wantEvents := int(last - max(oldest, 12))
		cursor, _, err := r.Log().Since(oldest)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(revisions(t, r.Log(), cursor)); got != wantEvents {
			t.Fatalf("the log is complete after revision %d and has %d events, want %d", oldest, got, wantEvents)
		}
	}
}
