package crd

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/millrace/millrace/internal/wire/entry"
)

// webhookConverter converts the objects of one definition by its webhook. A stored object
// is converted once to each version, for all readers that wait for it. The result stays in
// the conversionCache until the object or the definition changes, if there is room.
//
//	convertAll ─► findOrJoin ─► in the cache ─────────────────────────────► done
//	                        └─► pending ─► queue ─► review ─► complete ─► wait returns
//	                                         └─ abandoned by its last reader: not sent
//
// Objects in the queue go to the webhook together, as many as a review may hold. A webhook
// that takes a millisecond for a review converts a hundred objects in that time. That is
// why singleflight does not fit here.
//
// Reviews run in goroutines of their own, so a reader can give up when its deadline is over.
// Objects in the queue that no reader waits for any longer are not sent. An error goes to the
// readers that wait. It is not kept, so the next reader asks the webhook again.
type webhookConverter struct {
	cache *conversionCache

	// mu comes before conversionCache.mu.
	mu struct {
		sync.Mutex
		// pending are the objects that are being converted or wait to be.
		pending map[conversionKey]*pendingConversion
		// queue are the pending objects that no review has taken yet.
		queue []*pendingConversion
		// reviews is the number of goroutines that empty the queue.
		reviews int
		// maxObjects bounds the objects in a review. It follows the webhook's speed
		// (adaptReviewSize).
		maxObjects int
	}
}

const (
	// reviewObjects and reviewBytes bound a review.
	reviewObjects = 100
	reviewBytes   = 1 << 20
	// maxReviews bounds the goroutines that empty a definition's queue.
	maxReviews = 4
	// slowReview is the duration of a review from which on the next one has half as many
	// objects.
	slowReview = 5 * time.Second
)

func newWebhookConverter(cache *conversionCache) *webhookConverter {
	c := &webhookConverter{cache: cache}
	c.mu.pending = map[conversionKey]*pendingConversion{}
	c.mu.maxObjects = reviewObjects
	return c
}

// conversionKey identifies a stored object in another version. sum is a hash of its bytes.
type conversionKey struct {
	converter *webhookConverter
	version   string
	sum       [16]byte
}

// key returns the key of a stored object in a version.
func (c *webhookConverter) key(version string, stored []byte) conversionKey {
	sum := sha256.Sum256(stored)
	return conversionKey{converter: c, version: version, sum: [16]byte(sum[:16])}
}

// convertedObject is the result of a conversion. It is immutable except for its retention.
type convertedObject struct {
	// kind is the kind of the stored object.
	kind schema.GroupVersionKind
	// content is the object as CBOR, in which 1 and 1.0 differ, unlike in JSON.
	content []byte
	// labels are the labels of the converted object.
	labels *entry.Attributes
	retention
}

// decodeInto sets the content of u.
func (c *convertedObject) decodeInto(u *unstructured.Unstructured) error {
	var content map[string]any
	if err := cbor.Unmarshal(c.content, &content); err != nil {
		return fmt.Errorf("decode converted object: %w", err)
	}
	u.SetUnstructuredContent(content)
	return nil
}

// pendingConversion is an object that is being converted or waits to be.
type pendingConversion struct {
	key    conversionKey
	codec  lazyCodec
	stored []byte
	// waiting is the number of readers that wait. webhookConverter.mu guards it.
	waiting int
	// done is closed when result or err is set. Neither changes afterwards.
	done   chan struct{}
	result *convertedObject
	err    error
}

// findOrJoin returns the converted object from the cache. If it is not there, findOrJoin
// returns p, and counts the caller as a reader that waits for it. fresh is true for the
// first reader, which must get p converted.
func (c *webhookConverter) findOrJoin(l lazyCodec, stored []byte) (object *convertedObject, p *pendingConversion, fresh bool) {
	key := c.key(l.version, stored)
	if object := c.cache.get(key); object != nil {
		return object, nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p = c.mu.pending[key]; p == nil {
		if object := c.cache.get(key); object != nil {
			return object, nil, false
		}
		fresh = true
		// The caller's bytes are not valid for long.
		p = &pendingConversion{key: key, codec: l, stored: slices.Clone(stored), done: make(chan struct{})}
		c.mu.pending[key] = p
	}
	p.waiting++
	return nil, p, fresh
}

// get returns one converted object. It is for callers without a context: an object that is
// not pending is converted in the calling goroutine.
func (c *webhookConverter) get(l lazyCodec, stored []byte) (*convertedObject, error) {
	object, p, fresh := c.findOrJoin(l, stored)
	if p == nil {
		return object, nil
	}
	if fresh {
		c.convert([]*pendingConversion{p})
	}
	<-p.done
	return p.result, p.err
}

// enqueue queues objects and starts reviews for them, up to maxReviews.
func (c *webhookConverter) enqueue(fresh []*pendingConversion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.queue = append(c.mu.queue, fresh...)
	for range (len(fresh) + c.mu.maxObjects - 1) / c.mu.maxObjects {
		if c.mu.reviews == maxReviews {
			return
		}
		c.mu.reviews++
		go c.review()
	}
}

// review converts objects from the queue until it is empty.
func (c *webhookConverter) review() {
	for {
		batch := c.takeBatch()
		if len(batch) == 0 {
			return
		}
		began := time.Now()
		c.convert(batch)
		c.adaptReviewSize(len(batch), time.Since(began))
	}
}

// takeBatch takes the objects for one review from the queue. If the queue is empty it
// returns none, and the calling goroutine no longer counts as a review.
func (c *webhookConverter) takeBatch() []*pendingConversion {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*pendingConversion
	size := 0
	for len(c.mu.queue) > 0 && len(batch) < c.mu.maxObjects {
		p := c.mu.queue[0]
		if len(batch) > 0 && (p.key.version != batch[0].key.version || size+len(p.stored) > reviewBytes) {
			break
		}
		c.mu.queue[0] = nil
		c.mu.queue = c.mu.queue[1:]
		batch, size = append(batch, p), size+len(p.stored)
	}
	if len(batch) == 0 {
		c.mu.queue = nil
		c.mu.reviews--
	}
	return batch
}

// adaptReviewSize adapts the size of later reviews to how long a review of that many objects took.
func (c *webhookConverter) adaptReviewSize(objects int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case took >= slowReview:
		c.mu.maxObjects = max(1, min(c.mu.maxObjects, objects)/2)
	case took < slowReview/4:
		c.mu.maxObjects = min(reviewObjects, 2*c.mu.maxObjects)
	}
}

// complete sets the result of an object, or its error, and wakes the readers that wait.
func (c *webhookConverter) complete(p *pendingConversion, result *convertedObject, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.result, p.err, p.stored = result, err, nil
	if err == nil {
		c.cache.put(p.key, result)
	}
	delete(c.mu.pending, p.key)
	close(p.done)
}

// wait waits until an object is converted, or the context ends.
func (c *webhookConverter) wait(ctx context.Context, p *pendingConversion) (*convertedObject, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		c.abandon(p)
		return nil, ctx.Err()
	}
}

// abandon is called by a reader that no longer waits. An object that has no reader left
// is taken out of the queue.
func (c *webhookConverter) abandon(p *pendingConversion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.waiting--
	if i := slices.Index(c.mu.queue, p); i >= 0 && p.waiting == 0 {
		c.mu.queue = slices.Delete(c.mu.queue, i, i+1)
		delete(c.mu.pending, p.key)
	}
}

// convertAll converts those entries that the webhook has to convert. It returns when the
// cache has all results, or after an error.
func (c *webhookConverter) convertAll(ctx context.Context, l lazyCodec, entries []*entry.Entry) error {
	var waits, fresh []*pendingConversion
	var sources []*entry.Entry // of waits
	err := l.eachConverted(entries, func(e *entry.Entry, stored []byte) bool {
		object, p, first := c.findOrJoin(l, stored)
		if p == nil {
			c.cache.setSource(object, e)
			return true
		}
		waits, sources = append(waits, p), append(sources, e)
		if first {
			fresh = append(fresh, p)
		}
		return true
	})
	c.enqueue(fresh)
	for i, p := range waits {
		if err != nil {
			c.abandon(p)
			continue
		}
		var object *convertedObject
		if object, err = c.wait(ctx, p); err == nil {
			c.cache.setSource(object, sources[i])
		}
	}
	return err
}

// eachConverted calls use for each entry that the webhook has to convert, until use
// returns false. The bytes are valid until use returns.
func (l lazyCodec) eachConverted(entries []*entry.Entry, use func(*entry.Entry, []byte) bool) error {
	more := true
	for _, e := range entries {
		if e.Opaque() {
			continue
		}
		err := e.Read(func(stored []byte) error {
			if l.converts(stored) {
				more = use(e, stored)
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

const (
	// convertObjects and convertBytes bound what one reader has in the queue at a time.
	convertObjects = reviewObjects * maxReviews
	convertBytes   = reviewBytes * maxReviews
)

// Convert implements storage.ConvertingCodec.
func (l lazyCodec) Convert(ctx context.Context, entries []*entry.Entry) error {
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && n < convertObjects && size < convertBytes {
			size += entries[n].Size()
			n++
		}
		if err := l.served.converter.convertAll(ctx, l, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// Converted implements storage.ConvertingCodec.
func (l lazyCodec) Converted(entries []*entry.Entry) bool {
	c, all := l.served.converter, true
	err := l.eachConverted(entries, func(_ *entry.Entry, stored []byte) bool {
		all = c.cache.get(c.key(l.version, stored)) != nil
		return all
	})
	return all && err == nil
}

// Excludes implements storage.ConvertingCodec.
func (l lazyCodec) Excludes(e *entry.Entry, selector labels.Selector) bool {
	if selector == nil || selector.Empty() || e.Opaque() {
		return false
	}
	excludes := false
	err := e.Read(func(stored []byte) error {
		shown := entry.Entry{Key: e.Key, Attributes: e.Attributes}
		if l.converts(stored) {
			object := l.served.converter.cache.get(l.served.converter.key(l.version, stored))
			if object == nil {
				return nil // not known before it is converted
			}
			shown.Attributes = object.labels
		}
		excludes = !shown.Matches(selector, nil)
		return nil
	})
	return excludes && err == nil
}
