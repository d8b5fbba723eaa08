package cache_test

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/internal/tier/cache"
)

// TestUnload takes back what was loaded. Reads find nothing, watches have lost their place, and
// another load, at a lower revision, is as the first one.
func TestUnload(t *testing.T) {
	t.Parallel()
	for _, watchesEnd := range []bool{false, true} {
		c := newCache(cache.Config{})
		r := c.Register(cache.Spec{Prefix: "/registry/things/"})
		load(t, c, 20, put("/registry/things/a", "one", 5))
		at, _, err := r.Log().Since(20)
		if err != nil {
			t.Fatal(err)
		}
		if watchesEnd {
			c.Unload()
		} else {
			c.Suspend()
		}
		if err := c.Ready(); !errors.Is(err, cache.ErrNotReady) || c.Progress().Revision() != 0 {
			t.Errorf("Ready() = %v at %d", err, c.Progress().Revision())
		}
		if _, _, _, err := r.Log().Read(at, make([]cache.Event, 1)); errors.Is(err, cache.ErrExpired) != watchesEnd {
			t.Errorf("a watch reads on with %v", err)
		}
		if n := r.Snapshot().Len(); n != 1 {
			t.Errorf("%d objects for reads that have begun, want 1", n)
		}
		c.Free()
		if n := r.Snapshot().Len(); n != 0 {
			t.Errorf("%d objects stay", n)
		}
		load(t, c, 10, put("/registry/things/b", "two", 7))
		if c.Ready() != nil || c.Progress().Revision() != 10 || r.Snapshot().Len() != 1 {
			t.Errorf("loaded again: %v, %d, %d objects", c.Ready(), c.Progress().Revision(), r.Snapshot().Len())
		}
		if c.Free(); r.Snapshot().Len() != 1 {
			t.Error("a loaded cache is freed")
		}
	}
}
