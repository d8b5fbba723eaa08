package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

func TestRegisterAdoptsWhatWasReadBefore(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	if err := c.Ready(); !errors.Is(err, cache.ErrNotReady) {
		t.Fatalf("Ready() = %v before a load, want ErrNotReady", err)
	}
	load(t, c, 10, object(pods+"default/a", "1", 3), object("/registry/pods.metrics/b", "1", 4))
	if err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	c.Apply(t.Context(), apply(put(pods+"default/c", "1", 11)))

	r := c.Register(cache.Spec{Prefix: pods})
	wantValues(t, "late registration", r.Snapshot().Tree, map[string]string{"default/a": "1", "default/c": "1"})
	if got := r.Snapshot(); got.Revision != 11 || got.Bytes != 2 {
		t.Errorf("snapshot has revision %d and %d bytes, want 11 and 2", got.Revision, got.Bytes)
	}
	c.Apply(t.Context(), apply(remove(pods+"default/a", 12)))
	wantRevisions(t, r.Log(), 10, 11, 12)

	other := c.Register(cache.Spec{Prefix: "/registry/pods.metrics/"})
	wantValues(t, "neighbour", other.Snapshot().Tree, map[string]string{"b": "1"})
	all := c.Register(cache.Spec{Prefix: "/registry/"})
	wantValues(t, "unclaimed keys", all.Snapshot().Tree, nil)
}

func TestRegisterDuringLoad(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	loader := c.BeginLoad()
	loader.Add(t.Context(), []feed.Object{object(pods+"a", "1", 3)})
	r := c.Register(cache.Spec{Prefix: pods})
	loader.Add(t.Context(), []feed.Object{object(pods+"b", "1", 4)})
	wantValues(t, "before the end", r.Snapshot().Tree, nil)
	loader.End(t.Context(), 10)
	wantValues(t, "after the end", r.Snapshot().Tree, map[string]string{"a": "1", "b": "1"})
}

// TestReleaseDuringLoad releases empty resources while objects of one are loaded: these are not
// lost, and the other resource is removed.
func TestReleaseDuringLoad(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	load(t, c, 10)
	loaded, empty := c.Register(cache.Spec{Prefix: pods}), c.Register(cache.Spec{Prefix: "/registry/empty/"})
	loader := c.BeginLoad()
	loader.Add(t.Context(), []feed.Object{object(pods+"a", "1", 11)})
	c.Release(loaded)
	c.Release(empty)
	loader.End(t.Context(), 12)
	wantValues(t, "registered again", c.Register(cache.Spec{Prefix: pods}).Snapshot().Tree, map[string]string{"a": "1"})
	if n := len(c.Resources()); n != 1 {
		t.Errorf("%d resources, want 1", n)
	}
}

func TestReleaseKeepsWhatHasObjects(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	load(t, c, 10, object(pods+"a", "1", 3))
	first, second := c.Register(cache.Spec{Prefix: pods}), c.Register(cache.Spec{Prefix: pods})
	if first != second {
		t.Fatal("a prefix has two resources")
	}
	c.Release(first)
	c.Release(second)
	c.Apply(t.Context(), apply(put(pods+"b", "1", 11)))
	again := c.Register(cache.Spec{Prefix: pods})
	if again != first {
		t.Fatal("a resource with objects did not outlive its registrations")
	}
	wantValues(t, "registered again", again.Snapshot().Tree, map[string]string{"a": "1", "b": "1"})
	wantRevisions(t, again.Log(), 10, 11)

	c.Apply(t.Context(), apply(remove(pods+"a", 12), remove(pods+"b", 13)))
	c.Release(again)
	if c.Register(cache.Spec{Prefix: pods}) == again {
		t.Fatal("an empty resource outlived its registrations")
	}
}

func TestLoadReplacesTree(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10, object(pods+"a", "1", 3), object(pods+"b", "1", 4))
	before := r.Snapshot()
	load(t, c, 20, object(pods+"b", "2", 15), object(pods+"c", "1", 16))
	wantValues(t, "new", r.Snapshot().Tree, map[string]string{"b": "2", "c": "1"})
	wantValues(t, "old", before.Tree, map[string]string{"a": "1", "b": "1"})
	if got := r.Snapshot().Revision; got != 20 {
		t.Errorf("revision is %d, want 20", got)
	}
	if got := c.Progress().Revision(); got != 20 {
		t.Errorf("progress is %d, want 20", got)
	}
}

// TestLoadIsAtomic: between the old and the new objects no reader sees an empty resource.
// Clients would act upon it.
func TestLoadIsAtomic(t *testing.T) {
	t.Parallel()
	const objects = 300
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	kvs := make([]feed.Object, objects)
	for i := range kvs {
		kvs[i] = object(fmt.Sprintf("%s%03d", pods, i), "1", int64(i+1))
	}
	load(t, c, objects, kvs...)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if n := r.Snapshot().Len(); n != objects {
				t.Errorf("a reader sees %d objects, want %d", n, objects)
				return
			}
		}
	})
	for i := range 300 {
		load(t, c, int64(objects+i), kvs...)
	}
	close(stop)
	readers.Wait()
}

func TestUnreadableEntriesAreCounted(t *testing.T) {
	t.Parallel()
	broken := errors.New("wrong key")
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{
		Prefix: pods,
		Open: func(_ context.Context, _ string, value []byte) ([]byte, error) {
			plain, ok := bytes.CutPrefix(value, []byte("sealed:"))
			if !ok {
				return nil, broken
			}
			return plain, nil
		},
		Describe: func(e *entry.Entry) error {
			e.Altered = string(e.Value) == "altered"
			return nil
		},
	})
	wantOpaque := func(what string, want int) {
		t.Helper()
		if got := r.Snapshot().Opaque; got != want {
			t.Errorf("%s: Opaque = %d, want %d", what, got, want)
		}
	}
	load(t, c, 10, object(pods+"a", "?", 3), object(pods+"b", "?", 4), object(pods+"c", "sealed:1", 5), object(pods+"d", "sealed:altered", 6))
	wantOpaque("loaded", 3)
	if e := r.Snapshot().Get("a"); !errors.Is(e.Err, broken) {
		t.Errorf("error of a is %v, want that of Open", e.Err)
	}
	c.Apply(t.Context(), apply(put(pods+"a", "sealed:2", 11)))
	wantOpaque("a repaired", 2)
	c.Apply(t.Context(), apply(remove(pods+"b", 12)))
	wantOpaque("b deleted", 1)
	c.Apply(t.Context(), apply(put(pods+"c", "?", 13), put(pods+"c", "?", 14)))
	wantOpaque("c broken twice", 2)
	if old, err := r.At(10); err != nil || old.Opaque != 3 || old.Len() != 4 {
		t.Errorf("At(10) has %d opaque of %d, %v, want 3 of 4", old.Opaque, old.Len(), err)
	}
	load(t, c, 20, object(pods+"a", "sealed:3", 15))
	wantOpaque("loaded anew", 0)
}

// TestAtUndoesLaterEvents compares old revisions with the objects that were there then.
func TestAtUndoesLaterEvents(t *testing.T) {
	t.Parallel()
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	load(t, c, 10, object(pods+"k0", "first", 3))
	current := map[string]string{"k0": "first"}
	seen := map[int64]map[string]string{10: maps.Clone(current)}
	for revision := int64(11); revision < 400; revision++ {
		key, value := fmt.Sprintf("k%d", random.IntN(120)), fmt.Sprint(revision)
		_, exists := current[key]
		var event feed.Object
		if exists && random.IntN(3) == 0 {
			event = remove(pods+key, revision)
			delete(current, key)
		} else {
			event = put(pods+key, value, revision)
			current[key] = value
		}
		c.Apply(t.Context(), apply(event))
		seen[revision] = maps.Clone(current)
	}
	for revision, want := range seen {
		old, err := r.At(revision)
		if err != nil {
			t.Fatalf("At(%d): %v", revision, err)
		}
		wantValues(t, fmt.Sprintf("revision %d", revision), old.Tree, want)
		size := int64(0)
		for _, value := range want {
			size += int64(len(value))
		}
		if old.Revision != revision || old.Bytes != size {
			t.Fatalf("At(%d) says revision %d, %d bytes, want %d bytes", revision, old.Revision, old.Bytes, size)
		}
	}
	wantValues(t, "newest", r.Snapshot().Tree, current)
	if _, err := r.At(9); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("At(9): %v, want ErrExpired", err)
	}
}

func TestUndecodableEntriesAreOpaque(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods, Describe: describe})
	load(t, c, 10, object(pods+"a", `{}`, 3), object(pods+"b", `{}`, 4))
	old := r.Snapshot()
	e := old.Get("a")
	r.MarkUndecodable(c, e, errors.New("damaged inside"))
	snapshot := r.Snapshot()
	if snapshot.Opaque != 1 || snapshot.Get("a").Err == nil || snapshot.Get("a").Revision != 3 || snapshot.Len() != 2 || snapshot.Get("b").Err != nil {
		t.Errorf("%d opaque entries, %+v", snapshot.Opaque, snapshot.Get("a"))
	}
	wantRevisions(t, r.Log(), 10)
	// An entry that is no longer the newest version is not marked.
	c.Apply(t.Context(), apply(put(pods+"a", `{}`, 11)))
	r.MarkUndecodable(c, e, errors.New("damaged inside"))
	if snapshot := r.Snapshot(); snapshot.Opaque != 0 || snapshot.Get("a").Err != nil {
		t.Errorf("the repaired object is marked undecodable: %+v", snapshot.Get("a"))
	}
}
