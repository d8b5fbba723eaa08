package cache_test

import (
	"io"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// newCache makes a cache that is not loaded and logs nothing.
func newCache(cfg cache.Config) *cache.Cache {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return cache.New(cfg)
}

func object(key, value string, revision int64) feed.Object {
	return feed.Object{Key: []byte(key), Value: []byte(value), Revision: revision}
}

func put(key, value string, revision int64) feed.Object {
	return object(key, value, revision)
}

func remove(key string, revision int64) feed.Object {
	return feed.Object{Key: []byte(key), Revision: revision, Deleted: true}
}

// load replaces everything in the cache.
func load(t *testing.T, c *cache.Cache, revision int64, objects ...feed.Object) {
	t.Helper()
	loader := c.BeginLoad()
	loader.Add(t.Context(), objects)
	loader.End(t.Context(), revision)
}

// values returns a tree's values by key.
func values(tree cache.Tree) map[string]string {
	found := map[string]string{}
	for e := range tree.All("", "") {
		// Values may be packed.
		_ = e.Read(func(value []byte) error {
			found[e.Key] = string(value)
			return nil
		})
	}
	return found
}

func wantValues(t *testing.T, what string, tree cache.Tree, want map[string]string) {
	t.Helper()
	if got := values(tree); !maps.Equal(got, want) || tree.Len() != len(want) {
		t.Fatalf("%s: holds %v (Len %d), want %v", what, got, tree.Len(), want)
	}
}

// revisions returns the revisions of a log's events from a cursor to the end.
func revisions(t *testing.T, log *cache.Log, at cache.Position) []int64 {
	t.Helper()
	var found []int64
	buf := make([]cache.Event, 3)
	for {
		n, next, _, err := log.Read(at, buf)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range buf[:n] {
			found = append(found, e.Revision)
		}
		if at = next; n == 0 {
			return found
		}
	}
}

func wantRevisions(t *testing.T, log *cache.Log, since int64, want ...int64) {
	t.Helper()
	cursor, _, err := log.Since(since)
	if err != nil {
		t.Fatalf("Since(%d): %v", since, err)
	}
	if got := revisions(t, log, cursor); !slices.Equal(got, want) {
		t.Fatalf("events after %d have revisions %v, want %v", since, got, want)
	}
}

// apply makes a watch response of events.
func apply(events ...feed.Object) []feed.Object { return events }
