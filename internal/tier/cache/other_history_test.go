package cache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tier/cache"
)

// TestLoadOfAnotherHistory loads a resource at a lower revision: another server has it now.
// Watches lose their place, and no revision of the old history proves anything of the new one.
func TestLoadOfAnotherHistory(t *testing.T) {
	t.Parallel()
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: pods})
	load(t, c, 6840, object(pods+"a", "old", 6800))
	c.Apply(t.Context(), apply(put(pods+"b", "old", 6845)))
	place, _, err := r.Log().Since(6840)
	if err != nil {
		t.Fatal(err)
	}
	load(t, c, 70, object(pods+"c", "new", 60))
	wantValues(t, "the new history", r.Snapshot().Tree, map[string]string{"c": "new"})
	if got := r.Snapshot().Revision; got != 70 {
		t.Errorf("the snapshot is of revision %d", got)
	}
	if _, _, _, err := r.Log().Read(place, make([]cache.Event, 1)); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("a watch of the old history goes on: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.Progress().Wait(ctx, 75); err == nil {
		t.Error("the cache has revision 75, and was loaded at 70")
	}
	c.Apply(t.Context(), apply(put(pods+"d", "new", 75)))
	if err := c.Progress().Wait(t.Context(), 75); err != nil {
		t.Error(err)
	}
	if _, revision, err := c.Digest(); err != nil || revision != 75 {
		t.Errorf("the digest is of revision %d, %v", revision, err)
	}
}
