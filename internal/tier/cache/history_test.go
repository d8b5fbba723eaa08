package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// loadPast loads an old revision; events up to newest follow.
func loadPast(t *testing.T, c *cache.Cache, revision, newest int64, objects ...feed.Object) {
	t.Helper()
	loader := c.BeginLoad()
	loader.Add(t.Context(), objects)
	loader.Expect(newest)
	loader.End(t.Context(), revision)
}

func wantExpired(t *testing.T, log *cache.Log, rv, oldest int64) {
	t.Helper()
	if _, got, err := log.Since(rv); !errors.Is(err, cache.ErrExpired) || got != oldest {
		t.Errorf("Since(%d) says %d, %v, want %d, ErrExpired", rv, got, err, oldest)
	}
}

// TestHistoryBeforeReady: the cache shows nothing until it is as new as etcd was when the
// load began, and then everything.
func TestHistoryBeforeReady(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	wantHidden := func(what string) {
		t.Helper()
		if err := c.Ready(); !errors.Is(err, cache.ErrNotReady) || c.Progress().Revision() != 0 {
			t.Fatalf("%s: Ready() = %v, progress %d; want ErrNotReady and 0", what, err, c.Progress().Revision())
		}
	}
	_, moved := c.Progress().Watch()
	loadPast(t, c, 10, 20, object(pods+"a", "1", 3), object(pods+"b", "1", 4))
	wantHidden("loaded")
	c.Apply(t.Context(), apply(put(pods+"a", "2", 11), remove(pods+"b", 12)))
	wantHidden("a batch applied")
	c.Progressed(19)
	wantHidden("one revision behind")
	select {
	case <-moved:
		t.Error("progress wakes readers too early")
	default:
	}
	c.Progressed(21)
	if err := c.Ready(); err != nil || c.Progress().Revision() != 21 {
		t.Fatalf("caught up: Ready() = %v, progress %d; want 21", err, c.Progress().Revision())
	}
	wantValues(t, "newest", r.Snapshot().Tree, map[string]string{"a": "2"})
	wantRevisions(t, r.Log(), 10, 11, 12)
	wantRevisions(t, r.Log(), 11, 12)
	wantExpired(t, r.Log(), 9, 10)
	old, err := r.At(10)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "at the load", old.Tree, map[string]string{"a": "1", "b": "1"})
}

func TestHistoryThatEndsWithAnEvent(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	loadPast(t, c, 10, 11)
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11)))
	if err := c.Ready(); err != nil || c.Progress().Revision() != 11 {
		t.Errorf("Ready() = %v, progress %d; want 11", err, c.Progress().Revision())
	}
}

// TestHistoryLostBeforeReady loads an old revision. etcd compacts the events that follow
// before they are replayed, so the cache must not become ready.
func TestHistoryLostBeforeReady(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	loadPast(t, c, 10, 20, object(pods+"a", "1", 3))
	c.Apply(t.Context(), apply(put(pods+"a", "2", 11)))
	loadPast(t, c, 15, 30, object(pods+"a", "3", 14))
	c.Apply(t.Context(), apply(put(pods+"a", "4", 25)))
	if err := c.Ready(); !errors.Is(err, cache.ErrNotReady) {
		t.Errorf("Ready() = %v at 25 of 30, want ErrNotReady", err)
	}
	c.Progressed(30)
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
	wantRevisions(t, r.Log(), 15, 25)
	wantExpired(t, r.Log(), 14, 15)
}

// TestReloadOfThePast: a cache that is ready stays so while the feed, which was compacted
// away, catches up.
func TestReloadOfThePast(t *testing.T) {
	t.Parallel()
	c, r := newLoaded(t, cache.Config{})
	c.Apply(t.Context(), apply(put(pods+"a", "1", 11)))
	loadPast(t, c, 20, 30, object(pods+"a", "2", 15))
	if err := c.Ready(); err != nil || c.Progress().Revision() != 20 {
		t.Errorf("Ready() = %v, progress %d; want 20", err, c.Progress().Revision())
	}
	c.Apply(t.Context(), apply(put(pods+"a", "3", 25)))
	if got := c.Progress().Revision(); got != 25 {
		t.Errorf("progress is %d, want 25", got)
	}
	wantExpired(t, r.Log(), 19, 20)
	wantRevisions(t, r.Log(), 20, 25)
}

// TestHistoryIsBoundedByBytes: replayed events have the same bounds as new ones.
func TestHistoryIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{HistoryBytes: 10_000})
	r := c.Register(cache.Spec{Prefix: pods})
	loadPast(t, c, 10, 60)
	value := strings.Repeat("x", 1000)
	for first := int64(11); first <= 60; first += 10 {
		var events []feed.Object
		for revision := first; revision < first+10; revision++ {
			events = append(events, put(pods+"a", value, revision))
		}
		c.Apply(t.Context(), events)
	}
	wantExpired(t, r.Log(), 10, 52)
	wantRevisions(t, r.Log(), 58, 59, 60)
}

// sealed is a spec whose stored values begin with their key and "=".
func sealed(prefix string) cache.Spec {
	return cache.Spec{Prefix: prefix, Open: func(_ context.Context, key string, value []byte) ([]byte, error) {
		plain, ok := bytes.CutPrefix(value, []byte(key+"="))
		if !ok {
			return nil, errors.New("not sealed")
		}
		return plain, nil
	}}
}

const widgets, gadgets = "/registry/example/widgets/", "/registry/example/gadgets/"

func widget(name, value string, revision int64) feed.Object {
	return put(widgets+name, widgets+name+"="+value, revision)
}

// TestAdoptedHistory registers a resource whose objects and events were read before.
func TestAdoptedHistory(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	loadPast(t, c, 10, 17, object(widgets+"a", widgets+"a=1", 3), object(widgets+"b", widgets+"b=1", 4), object(gadgets+"a", "1", 5))
	c.Apply(t.Context(), apply(widget("a", "2", 11), put(gadgets+"a", "2", 12), remove(widgets+"b", 13), widget("c", "1", 14), remove(widgets+"c", 15)))
	c.Apply(t.Context(), apply(put(gadgets+"b", "1", 16), widget("a", "3", 17)))

	r := c.Register(sealed(widgets))
	if got := r.Snapshot(); got.Opaque != 0 || got.Bytes != 1 || got.Revision != 17 {
		t.Errorf("snapshot has %d opaque, %d bytes, revision %d; want 0, 1, 17", got.Opaque, got.Bytes, got.Revision)
	}
	wantRevisions(t, r.Log(), 10, 11, 13, 14, 15, 17)
	wantExpired(t, r.Log(), 9, 10)
	for revision, want := range map[int64]map[string]string{
		10: {"a": "1", "b": "1"}, 12: {"a": "2", "b": "1"}, 13: {"a": "2"}, 14: {"a": "2", "c": "1"}, 16: {"a": "2"}, 17: {"a": "3"},
	} {
		old, err := r.At(revision)
		if err != nil {
			t.Fatal(err)
		}
		wantValues(t, fmt.Sprintf("revision %d", revision), old.Tree, want)
	}
	c.Apply(t.Context(), apply(widget("a", "4", 18)))
	wantRevisions(t, r.Log(), 15, 17, 18)

	other := c.Register(cache.Spec{Prefix: gadgets})
	wantValues(t, "neighbour", other.Snapshot().Tree, map[string]string{"a": "2", "b": "1"})
	wantRevisions(t, other.Log(), 10, 12, 16)
	empty := c.Register(cache.Spec{Prefix: "/registry/example/none/"})
	wantRevisions(t, empty.Log(), 10)
	wantExpired(t, empty.Log(), 9, 10)
}

// TestAdoptedHistoryOfDeleted: a resource without objects still has events.
func TestAdoptedHistoryOfDeleted(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	loadPast(t, c, 10, 11, object(widgets+"a", widgets+"a=1", 3))
	c.Apply(t.Context(), apply(remove(widgets+"a", 11)))
	r := c.Register(sealed(widgets))
	wantValues(t, "newest", r.Snapshot().Tree, nil)
	wantRevisions(t, r.Log(), 10, 11)
}

// TestAdoptedHistoryIsBounded: events that were dropped before the registration are gone.
func TestAdoptedHistoryIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{HistoryBytes: 10_000})
	load(t, c, 10)
	value := strings.Repeat("x", 1000)
	for revision := int64(11); revision <= 60; revision++ {
		c.Apply(t.Context(), apply(widget("a", value, revision), put(gadgets+"a", "1", revision)))
	}
	r := c.Register(sealed(widgets))
	_, oldest, err := r.Log().Since(0)
	if !errors.Is(err, cache.ErrExpired) || oldest < 50 || oldest > 58 {
		t.Fatalf("the log is complete from revision %d on, %v; want one of the last", oldest, err)
	}
	wantRevisions(t, r.Log(), 58, 59, 60)
	if old, err := r.At(oldest); err != nil || old.Get("a") == nil || old.Get("a").Revision != oldest {
		t.Errorf("At(%d): %v, want the object of that revision", oldest, err)
	}
}

// TestHistoryAfterRelease: while a resource is registered, its events go to its own log,
// which is removed with it.
func TestHistoryAfterRelease(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	load(t, c, 10)
	r := c.Register(sealed(widgets))
	c.Apply(t.Context(), apply(widget("a", "1", 11), remove(widgets+"a", 12), put(gadgets+"a", "1", 13)))
	c.Release(r)
	c.Apply(t.Context(), apply(widget("b", "1", 14)))
	again := c.Register(sealed(widgets))
	wantExpired(t, again.Log(), 12, 13)
	wantRevisions(t, again.Log(), 13, 14)
	// The history of other resources is complete, and so is all of it after a load.
	wantRevisions(t, c.Register(cache.Spec{Prefix: gadgets}).Log(), 10, 13)
	c.Apply(t.Context(), apply(remove(widgets+"b", 15)))
	c.Release(again)
	loadPast(t, c, 20, 21)
	c.Apply(t.Context(), apply(widget("c", "1", 21)))
	wantRevisions(t, c.Register(sealed(widgets)).Log(), 20, 21)
}

// TestHistoryAfterReleaseExpires: the record of a release is dropped after the window. The
// log must not then claim the events that it lacks.
func TestHistoryAfterReleaseExpires(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := newCache(cache.Config{Clock: now, HistoryWindow: time.Minute})
	load(t, c, 10)
	r := c.Register(sealed(widgets))
	c.Apply(t.Context(), apply(widget("a", "1", 11), remove(widgets+"a", 12)))
	c.Release(r)
	now.SetTime(now.Now().Add(time.Minute))
	c.Expire()
	c.Apply(t.Context(), apply(put(gadgets+"a", "1", 13)))
	wantRevisions(t, c.Register(cache.Spec{Prefix: gadgets}).Log(), 10, 13)
	now.SetTime(now.Now().Add(time.Second))
	c.Expire()
	c.Apply(t.Context(), apply(widget("b", "1", 14)))
	wantExpired(t, c.Register(sealed(widgets)).Log(), 11, 12)
}
