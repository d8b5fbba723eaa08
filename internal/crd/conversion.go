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

	"github.com/millrace/millrace/internal/resource"
)

// webhookConverter has a webhook convert the objects of one definition. Each stored object
// is converted once to each version, for all readers that wait for it, and is then
// found in the conversionCache until it or the definition changes.
//
// Objects that wait go to the webhook together, as many as one review may hold. A
// review belongs to a goroutine of its own: a reader whose time is over leaves it, and
// what nobody waits for any more is not sent. An error is told to those who wait and is
// not kept, so the next reader asks the webhook again.
type webhookConverter struct {
	cache *conversionCache

	// mu comes before conversionCache.mu.
	mu struct {
		sync.Mutex
		pending map[conversionKey]*pendingConversion
		// queue are those that no review has taken yet.
		queue []*pendingConversion
		// reviews counts the goroutines that empty the queue.
		reviews int
		// objects is how many go into a review at most. It follows the webhook's pace.
		objects int
	}
}

const (
	// reviewObjects and reviewBytes bound a review.
	reviewObjects = 100
	reviewBytes   = 1 << 20
	// reviewsAtOnce bounds those of a definition that are under way for the queue.
	reviewsAtOnce = 4
	// slowReview takes so long that the next has half as many objects.
	slowReview = 5 * time.Second
)

func newWebhookConverter(cache *conversionCache) *webhookConverter {
	c := &webhookConverter{cache: cache}
	c.mu.pending = map[conversionKey]*pendingConversion{}
	c.mu.objects = reviewObjects
	return c
}

// conversionKey names a stored object in another version: its bytes identify it.
type conversionKey struct {
	converter *webhookConverter
	version   string
	sum       [16]byte
}

func (c *webhookConverter) key(version string, stored []byte) conversionKey {
	sum := sha256.Sum256(stored)
	return conversionKey{converter: c, version: version, sum: [16]byte(sum[:16])}
}

// convertedObject is a converted object. It is immutable but for what conversionCache.mu
// guards.
type convertedObject struct {
	// kind is that of the stored object.
	kind schema.GroupVersionKind
	// content is the object's content as CBOR, which tells 1 from 1.0.
	content []byte
	// labels are the object's.
	labels *resource.Attributes
	retention
}

// decodeInto fills an object.
func (c *convertedObject) decodeInto(u *unstructured.Unstructured) error {
	var content map[string]any
	if err := cbor.Unmarshal(c.content, &content); err != nil {
		return fmt.Errorf("decode converted object: %w", err)
	}
	u.SetUnstructuredContent(content)
	return nil
}

// pendingConversion is an object that is being converted or waits for it.
type pendingConversion struct {
	key    conversionKey
	codec  lazyCodec
	stored []byte
	// waiting counts the readers. It is guarded by conversions.mu.
	waiting int
	// done is closed when made or err is set.
	done   chan struct{}
	result *convertedObject
	err    error
}

// findOrJoin returns a conversion that there is, or joins those who wait for it. fresh says
// that the caller is the first of them, and has to send it on its way.
func (c *webhookConverter) findOrJoin(l lazyCodec, stored []byte) (made *convertedObject, p *pendingConversion, fresh bool) {
	key := c.key(l.version, stored)
	if made := c.cache.get(key); made != nil {
		return made, nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p = c.mu.pending[key]; p == nil {
		if made := c.cache.get(key); made != nil {
			return made, nil, false
		}
		fresh = true
		// The bytes are only lent.
		p = &pendingConversion{key: key, codec: l, stored: slices.Clone(stored), done: make(chan struct{})}
		c.mu.pending[key] = p
	}
	p.waiting++
	return nil, p, fresh
}

// get converts one object now if need be. It is for callers without a context: what is
// not under way is converted by the calling goroutine.
func (c *webhookConverter) get(l lazyCodec, stored []byte) (*convertedObject, error) {
	made, p, fresh := c.findOrJoin(l, stored)
	if p == nil {
		return made, nil
	}
	if fresh {
		c.convert([]*pendingConversion{p})
	}
	<-p.done
	return p.result, p.err
}

// enqueue sends objects on their way.
func (c *webhookConverter) enqueue(fresh []*pendingConversion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.queue = append(c.mu.queue, fresh...)
	for range (len(fresh) + c.mu.objects - 1) / c.mu.objects {
		if c.mu.reviews == reviewsAtOnce {
			return
		}
		c.mu.reviews++
		go c.review()
	}
}

// review empties the queue.
func (c *webhookConverter) review() {
	for {
		batch := c.takeBatch()
		if len(batch) == 0 {
			return
		}
		began := time.Now()
		c.convert(batch)
		c.pace(len(batch), time.Since(began))
	}
}

// takeBatch takes what goes to the webhook together. At the end of the queue it gives up the
// caller's place.
func (c *webhookConverter) takeBatch() []*pendingConversion {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*pendingConversion
	size := 0
	for len(c.mu.queue) > 0 && len(batch) < c.mu.objects {
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

// pace learns how many objects the webhook converts in good time.
func (c *webhookConverter) pace(objects int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case took >= slowReview:
		c.mu.objects = max(1, min(c.mu.objects, objects)/2)
	case took < slowReview/4:
		c.mu.objects = min(reviewObjects, 2*c.mu.objects)
	}
}

// complete tells those who wait what has become of an object.
func (c *webhookConverter) complete(p *pendingConversion, made *convertedObject, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.result, p.err, p.stored = made, err, nil
	if err == nil {
		c.cache.put(p.key, made)
	}
	delete(c.mu.pending, p.key)
	close(p.done)
}

// wait waits for a conversion until the context ends.
func (c *webhookConverter) wait(ctx context.Context, p *pendingConversion) (*convertedObject, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		c.abandon(p)
		return nil, ctx.Err()
	}
}

// abandon is for those who do not wait any longer. What nobody waits for is not sent.
func (c *webhookConverter) abandon(p *pendingConversion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.waiting--
	if i := slices.Index(c.mu.queue, p); i >= 0 && p.waiting == 0 {
		c.mu.queue = slices.Delete(c.mu.queue, i, i+1)
		delete(c.mu.pending, p.key)
	}
}

// convertAll converts entries for a reader and returns when that is done.
func (c *webhookConverter) convertAll(ctx context.Context, l lazyCodec, entries []*resource.Entry) error {
	var waits, fresh []*pendingConversion
	var sources []*resource.Entry // of waits
	err := l.eachConverted(entries, func(e *resource.Entry, stored []byte) bool {
		made, p, first := c.findOrJoin(l, stored)
		if p == nil {
			c.cache.setSource(made, e)
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
		var made *convertedObject
		if made, err = c.wait(ctx, p); err == nil {
			c.cache.setSource(made, sources[i])
		}
	}
	return err
}

// eachConverted calls use with those of some entries that a webhook converts, until it
// returns false.
func (l lazyCodec) eachConverted(entries []*resource.Entry, use func(*resource.Entry, []byte) bool) error {
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
	// convertObjects and convertBytes bound what is converted at a time for one reader.
	convertObjects = reviewObjects * reviewsAtOnce
	convertBytes   = reviewBytes * reviewsAtOnce
)

// Convert implements storage.ConvertingCodec.
func (l lazyCodec) Convert(ctx context.Context, entries []*resource.Entry) error {
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
func (l lazyCodec) Converted(entries []*resource.Entry) bool {
	c, all := l.served.converter, true
	err := l.eachConverted(entries, func(_ *resource.Entry, stored []byte) bool {
		all = c.cache.get(c.key(l.version, stored)) != nil
		return all
	})
	return all && err == nil
}

// Excludes implements storage.ConvertingCodec.
func (l lazyCodec) Excludes(e *resource.Entry, selector labels.Selector) bool {
	if selector == nil || selector.Empty() || e.Opaque() {
		return false
	}
	excludes := false
	err := e.Read(func(stored []byte) error {
		shown := resource.Entry{Key: e.Key, Attributes: e.Attributes}
		if l.converts(stored) {
			made := l.served.converter.cache.get(l.served.converter.key(l.version, stored))
			if made == nil {
				return nil
			}
			shown.Attributes = made.labels
		}
		excludes = !shown.Matches(selector, nil)
		return nil
	})
	return excludes && err == nil
}
