package cache_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// churned makes a resource of 100,000 small objects, and changes one after the other with
// some events.
func churned(b *testing.B, events int) (*cache.Resource, int64) {
	_, r, loaded := churnedCache(b, events)
	return r, loaded
}

// churnedCache is churned, and returns the cache too.
func churnedCache(b *testing.B, events int) (*cache.Cache, *cache.Resource, int64) {
	const objects = 100_000
	c := newCache(cache.Config{})
	r := c.Register(cache.Spec{Prefix: "/registry/pods/"})
	loader := c.BeginLoad()
	page := make([]feed.Object, objects)
	for i := range page {
		page[i] = object(fmt.Sprintf("/registry/pods/ns/pod-%06d", i), "value", int64(i+1))
	}
	loader.Add(b.Context(), page)
	loader.End(b.Context(), objects)
	for i := range events {
		key := fmt.Sprintf("/registry/pods/ns/pod-%06d", i*7919%objects)
		c.Apply(b.Context(), []feed.Object{put(key, "other", int64(objects+i+1))})
	}
	return c, r, objects
}

// BenchmarkAt undoes events to return to an old state.
func BenchmarkAt(b *testing.B) {
	for _, events := range []int{1, 100, 10_000, 20_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			r, revision := churned(b, events)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.At(revision); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply puts single events into a large resource.
func BenchmarkApply(b *testing.B) {
	c := newCache(cache.Config{})
	c.Register(cache.Spec{Prefix: "/registry/pods/"})
	loader := c.BeginLoad()
	const objects = 100_000
	page := make([]feed.Object, objects)
	for i := range page {
		page[i] = object(fmt.Sprintf("/registry/pods/ns/pod-%06d", i), "value", int64(i+1))
	}
	loader.Add(b.Context(), page)
	loader.End(b.Context(), objects)
	revision := int64(objects)
	b.ReportAllocs()
	for b.Loop() {
		revision++
		c.Apply(b.Context(), []feed.Object{put(fmt.Sprintf("/registry/pods/ns/pod-%06d", revision*7919%objects), "other", revision)})
	}
}

// BenchmarkSince finds the place of a watch that resumes some events ago.
func BenchmarkSince(b *testing.B) {
	const events = 100_000
	r, loaded := churned(b, events)
	for _, behind := range []int64{0, 1, 100, 10_000, events} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.Log().Since(loaded + events - behind); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
