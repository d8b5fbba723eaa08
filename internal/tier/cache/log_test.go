package cache_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/tier/cache"
)

const pods = "/registry/pods/"

// newLoaded makes a cache with one resource, loaded at revision 10.
func newLoaded(t *testing.T, cfg cache.Config) (*cache.Cache, *cache.Resource) {
	t.Helper()
	c := newCache(cfg)
	r := c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10)
	return c, r
}

func TestLogSinceAndRead(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{})
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11), put("/registry/nodes/n", "1", 12), put(pods+"a", "2", 13), remove(pods+"a", 15)))
	wantRevisions(t, r.Log(), 10, 11, 13, 15)
	wantRevisions(t, r.Log(), 11, 13, 15)
	wantRevisions(t, r.Log(), 12, 13, 15)
	wantRevisions(t, r.Log(), 99)

	cursor, _, err := r.Log().Since(11)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]cache.Event, 2)
	if n, _, _, err := r.Log().Read(cursor, buf); n != 2 || err != nil {
		t.Fatalf("Read() = %d, %v, want 2 events", n, err)
	}
	if e := buf[0]; string(e.Entry.Value) != "2" || string(e.Previous.Value) != "1" {
		t.Errorf("update is from %q to %q, want from 1 to 2", e.Previous.Value, e.Entry.Value)
	}
	if e := buf[1]; e.Entry != nil || string(e.Previous.Value) != "2" || e.Key() != "a" {
		t.Errorf("deletion of %q has entry %v and previous %q, want a, none and 2", e.Key(), e.Entry, e.Previous.Value)
	}
}

// TestLogSinceWithEventsOfOneTransaction has several events of one revision: a cursor
// begins at all of them, or after all of them.
func TestLogSinceWithEventsOfOneTransaction(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{})
	wantRevisions(t, r.Log(), 10)
	if _, oldest, err := r.Log().Since(9); !errors.Is(err, cache.ErrExpired) || oldest != 10 {
		t.Errorf("Since(9) of an empty log says %d, %v, want 10, ErrExpired", oldest, err)
	}
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11), put(pods+"b", "1", 13), put(pods+"c", "1", 13), remove(pods+"a", 13), put(pods+"a", "2", 14)))
	wantRevisions(t, r.Log(), 10, 11, 13, 13, 13, 14)
	wantRevisions(t, r.Log(), 12, 13, 13, 13, 14)
	wantRevisions(t, r.Log(), 13, 14)
	wantRevisions(t, r.Log(), 14)
}

func TestLogWakesReaders(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{})
	cursor, _, err := r.Log().Since(10)
	if err != nil {
		t.Fatal(err)
	}
	_, cursor, grown, err := r.Log().Read(cursor, make([]cache.Event, 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t.Context(), apply(put("/registry/nodes/n", "1", 11)))
	select {
	case <-grown:
		t.Fatal("an event of another resource wakes readers")
	default:
	}
	c.Apply(t.Context(), apply(put(pods+"a", "1", 12)))
	select {
	case <-grown:
	case <-time.After(10 * time.Second):
		t.Fatal("an event does not wake readers")
	}
	if got := revisions(t, r.Log(), cursor); len(got) != 1 || got[0] != 12 {
		t.Fatalf("events are %v, want that of revision 12", got)
	}
}

func TestLogExpiresByBytes(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{HistoryBytes: 10_000})
	cursor, _, err := r.Log().Since(10)
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("x", 1000)
	for revision := int64(11); revision <= 60; revision++ {
		c.Apply(t.Context(), apply(put(pods+"a", value, revision)))
	}
	if _, _, _, err := r.Log().Read(cursor, make([]cache.Event, 1)); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("reading dropped events: %v, want ErrExpired", err)
	}
	_, oldest, err := r.Log().Since(10)
	if !errors.Is(err, cache.ErrExpired) {
		t.Fatalf("Since(10): %v, want ErrExpired", err)
	}
	// An event costs its previous value and 128 bytes: 8 of them fit.
	if oldest != 52 {
		t.Errorf("the log is complete from revision %d on, want 52", oldest)
	}
	wantRevisions(t, r.Log(), oldest, 53, 54, 55, 56, 57, 58, 59, 60)
	if _, err := r.At(oldest - 1); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("At(%d): %v, want ErrExpired", oldest-1, err)
	}
}

func TestLogExpiresByTime(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c, r := newLoaded(t, cache.Config{Clock: now, HistoryWindow: time.Minute, HistoryEvents: 1})
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11)))
	now.SetTime(now.Now().Add(40 * time.Second))
	c.Apply(t.Context(), apply(put(pods+"a", "2", 12)))
	now.SetTime(now.Now().Add(20 * time.Second))
	c.Apply(t.Context(), apply(put(pods+"a", "3", 13)))
	wantRevisions(t, r.Log(), 10, 11, 12, 13)
	now.SetTime(now.Now().Add(time.Second))
	c.Apply(t.Context(), apply(put(pods+"a", "4", 14)))
	if _, oldest, err := r.Log().Since(10); !errors.Is(err, cache.ErrExpired) || oldest != 11 {
		t.Fatalf("Since(10) says %d, %v, want 11, ErrExpired", oldest, err)
	}
	wantRevisions(t, r.Log(), 11, 12, 13, 14)
}

func TestLogOfAQuietResourceExpires(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c, r := newLoaded(t, cache.Config{Clock: now, HistoryWindow: time.Minute, HistoryEvents: 1})
	for revision := int64(11); revision <= 13; revision++ {
		c.Apply(t.Context(), apply(put(pods+"a", "1", revision)))
	}
	cursor, _, err := r.Log().Since(11)
	if err != nil {
		t.Fatal(err)
	}
	now.SetTime(now.Now().Add(time.Minute))
	if bytes := c.Expire(); bytes != 0 {
		t.Errorf("%d bytes of events within the window were dropped", bytes)
	}
	wantRevisions(t, r.Log(), 10, 11, 12, 13)
	now.SetTime(now.Now().Add(time.Second))
	if bytes := c.Expire(); bytes < 2 {
		t.Errorf("%d bytes were dropped, want those of two events", bytes)
	}
	if events, _, _ := r.Log().Size(); events != 1 {
		t.Errorf("%d events are left, want the newest alone", events)
	}
	if _, _, _, err := r.Log().Read(cursor, make([]cache.Event, 1)); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("reading dropped events: %v, want ErrExpired", err)
	}
	if _, oldest, err := r.Log().Since(11); !errors.Is(err, cache.ErrExpired) || oldest != 12 {
		t.Errorf("Since(11) says %d, %v, want 12, ErrExpired", oldest, err)
	}
	c.Apply(t.Context(), apply(put(pods+"a", "2", 14)))
	wantRevisions(t, r.Log(), 13, 14)
}

func TestLogIsForgottenByLoad(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{})
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11)))
	cursor, _, err := r.Log().Since(11)
	if err != nil {
		t.Fatal(err)
	}
	_, cursor, grown, err := r.Log().Read(cursor, make([]cache.Event, 1))
	if err != nil {
		t.Fatal(err)
	}
	load(t, c, 20, object(pods+"b", "1", 17))
	select {
	case <-grown:
	default:
		t.Error("a reader that waits is not woken")
	}
	if _, _, _, err := r.Log().Read(cursor, make([]cache.Event, 1)); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("reading on after a load: %v, want ErrExpired", err)
	}
	if _, oldest, err := r.Log().Since(19); !errors.Is(err, cache.ErrExpired) || oldest != 20 {
		t.Errorf("Since(19) says %d, %v, want 20, ErrExpired", oldest, err)
	}
	c.Apply(t.Context(), apply(put(pods+"c", "1", 21)))
	wantRevisions(t, r.Log(), 20, 21)
}
