package crd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/wire/entry"
)

func TestConversionCacheIsBounded(t *testing.T) {
	const limit, objects = 1 << 20, 5000
	cache := newConversionCache(limit, time.Minute, clocktesting.NewFakePassiveClock(time.Now()))
	c := newWebhookConverter(cache)
	for i := range objects {
		cache.put(c.key("v2", fmt.Append(nil, i)), &convertedObject{content: make([]byte, 1000)})
		if cache.mu.pool.bytes > limit {
			t.Fatalf("%d bytes after %d objects, want %d at most", cache.mu.pool.bytes, i+1, limit)
		}
	}
	if n := len(cache.mu.objects); n < limit/2000 || cache.mu.pool.bytes != int64(n)*(1000+conversionOverhead) {
		t.Errorf("the cache has %d objects of %d bytes", n, cache.mu.pool.bytes)
	}
}

func TestConversionsGoWithTheirEntries(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cache := newConversionCache(1<<20, time.Minute, clock)
	c, other := newWebhookConverter(cache), newWebhookConverter(cache)
	current, replaced := &entry.Entry{Key: "current"}, &entry.Entry{Key: "replaced"}
	keys := map[string]conversionKey{}
	for name, of := range map[string]*webhookConverter{"current": c, "replaced": c, "unmet": c, "other": other} {
		keys[name] = of.key("v2", []byte(name))
		cache.put(keys[name], &convertedObject{})
	}
	cache.setSource(cache.get(keys["current"]), current)
	cache.setSource(cache.get(keys["replaced"]), replaced)
	want := func(when string, names ...string) {
		t.Helper()
		found := 0
		for _, name := range names {
			if cache.mu.objects[keys[name]] == nil {
				t.Errorf("%s: the conversion of %q is not in the cache", when, name)
			}
			found++
		}
		if len(cache.mu.objects) != found {
			t.Errorf("%s: the cache has %d objects, want %d", when, len(cache.mu.objects), found)
		}
	}
	runtime.KeepAlive(replaced)
	replaced = nil
	runtime.GC()
	cache.sweep()
	want("an object was replaced", "current", "replaced", "unmet", "other")
	cache.forget(other)
	want("a definition has changed", "current", "replaced", "unmet")
	clock.Step(time.Minute / 2)
	cache.get(keys["unmet"])
	clock.Step(time.Minute / 2)
	cache.sweep()
	want("a replaced object was not read for a minute", "current", "unmet")
	clock.Step(time.Minute)
	cache.sweep()
	want("an object without entry was not read again", "current")
	runtime.KeepAlive(current)
}

func TestReviewBatches(t *testing.T) {
	cache := newConversionCache(1<<20, time.Minute, clocktesting.NewFakePassiveClock(time.Now()))
	c := newWebhookConverter(cache)
	c.mu.reviews = maxReviews // so that the test alone takes batches
	var all []*pendingConversion
	join := func(version string, size, i int) {
		made, p, fresh := c.findOrJoin(lazyCodec{version: version}, fmt.Appendf(make([]byte, size), "%d", i))
		if made != nil || !fresh {
			t.Fatalf("object %d is known", i)
		}
		all = append(all, p)
	}
	for i := range 150 {
		join("v2", 0, i)
	}
	join("v3", 0, 0)
	join("v3", 700<<10, 1)
	join("v3", 700<<10, 2)
	if _, p, fresh := c.findOrJoin(lazyCodec{version: "v2"}, []byte("120")); fresh || p != all[120] || p.waiting != 2 {
		t.Errorf("a second reader did not join the first")
	}
	c.enqueue(all)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.wait(ctx, all[149]); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader with a cancelled context got the error %v, want context.Canceled", err)
	}
	if _, err := c.wait(ctx, all[120]); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader with a cancelled context got the error %v, want context.Canceled", err)
	}
	for _, want := range []int{100, 49, 2, 1, 0} {
		if batch := c.takeBatch(); len(batch) != want {
			t.Errorf("a review has %d objects, want %d", len(batch), want)
		}
	}
	if c.mu.reviews != maxReviews-1 || len(c.mu.queue) != 0 || c.mu.pending[all[149].key] != nil {
		t.Errorf("%d reviews and %d in the queue are left", c.mu.reviews, len(c.mu.queue))
	}
	failed := errors.New("refused")
	c.complete(all[0], nil, failed)
	if _, err := c.wait(context.Background(), all[0]); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	if _, _, fresh := c.findOrJoin(lazyCodec{version: "v2"}, []byte("0")); !fresh {
		t.Errorf("an error stayed in the cache")
	}
}

func TestReviewSizesFollowTheWebhook(t *testing.T) {
	c := newWebhookConverter(nil)
	for i, step := range []struct {
		objects int
		took    time.Duration
		want    int
	}{{100, time.Second, 100}, {100, 6 * time.Second, 50}, {10, 6 * time.Second, 5}, {1, 6 * time.Second, 1}, {1, time.Millisecond, 2}, {2, 2 * time.Second, 2}, {2, time.Second, 4}} {
		if c.adaptReviewSize(step.objects, step.took); c.mu.maxObjects != step.want {
			t.Errorf("step %d: %d objects in a review, want %d", i, c.mu.maxObjects, step.want)
		}
	}
}

// TestConvertedObjectsRoundTrip checks that numbers keep their types.
func TestConvertedObjectsRoundTrip(t *testing.T) {
	u := &unstructured.Unstructured{}
	const text = `{"apiVersion":"g/v2","kind":"K","metadata":{"name":"n"},"spec":{"f":1.0,"i":1,"large":9007199254740993,"e":1e3,"null":null,"list":[1,"a",true],"time":"2026-01-01T00:00:00Z","text":"\u00e9\u0000"}}`
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	content, err := cbor.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	got := &unstructured.Unstructured{}
	if err := (&convertedObject{content: content}).decodeInto(got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%#v", got.Object) != fmt.Sprintf("%#v", u.Object) {
		t.Errorf("got  %#v\nwant %#v", got.Object, u.Object)
	}
}
