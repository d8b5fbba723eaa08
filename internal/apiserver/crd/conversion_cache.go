package crd

import (
	"sync"
	"time"
	"weak"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/wire/entry"
)

// conversionCache keeps the objects that webhooks have converted, of all definitions, and
// bounds their bytes (evictionPool). Readers that hold an object need not be counted:
// they have its memory, and dropping it here costs a review later.
//
// Within the limit an object is kept while a cache or a history has the entry that it was
// converted from. After that it is dropped when it was not read for the idle time.
type conversionCache struct {
	// limit is in bytes.
	limit int64
	idle  time.Duration
	clock clock.PassiveClock

	// No other lock is taken under mu.
	mu struct {
		sync.Mutex
		objects map[conversionKey]*convertedObject
		pool    evictionPool[*convertedObject]
	}
}

// retention is the cache's part of a convertedObject. conversionCache.mu guards it.
type retention struct {
	poolEntry
	key conversionKey
	// source is an entry that the object was converted from. It is nil if none was
	// recorded, or if the entry is gone.
	source weak.Pointer[entry.Entry]
}

func newConversionCache(limit int64, idle time.Duration, c clock.PassiveClock) *conversionCache {
	cache := &conversionCache{limit: limit, idle: idle, clock: c}
	cache.mu.objects = map[conversionKey]*convertedObject{}
	return cache
}

// conversionOverhead is about how many bytes a conversion takes beside its content.
const conversionOverhead = 448

func (c *convertedObject) cost() int64 { return int64(cap(c.content)) + conversionOverhead }

// get returns a converted object, or nil if there is none.
func (c *conversionCache) get(key conversionKey) *convertedObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	object := c.mu.objects[key]
	if object != nil {
		object.use(c.clock.Now())
	}
	return object
}

// setSource records an entry that an object was converted from, unless it has recorded an
// entry that still exists.
func (c *conversionCache) setSource(object *convertedObject, e *entry.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object.source.Value() == nil {
		object.source = weak.Make(e)
	}
}

// put adds a converted object, and drops others to make up for it.
func (c *conversionCache) put(key conversionKey, object *convertedObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.mu.objects[key]; old != nil {
		c.dropLocked(old)
	}
	object.key = key
	object.use(c.clock.Now())
	c.mu.objects[key] = object
	c.mu.pool.grow(object, object.cost())
	for c.mu.pool.bytes > c.limit {
		c.dropLocked(c.mu.pool.candidate())
	}
}

func (c *conversionCache) dropLocked(object *convertedObject) {
	delete(c.mu.objects, object.key)
	c.mu.pool.remove(object)
}

// sweep drops objects whose entries are gone, if they were not read for the idle time. An
// object that did not change has a new entry after its resource was packed or loaded again.
// Its next reader records that entry.
func (c *conversionCache) sweep() {
	since := c.clock.Now().Add(-c.idle)
	c.dropWhere(func(object *convertedObject) bool {
		return object.source.Value() == nil && !object.usedSince(since)
	})
}

// forget drops all objects of a definition.
func (c *conversionCache) forget(definition *webhookConverter) {
	c.dropWhere(func(object *convertedObject) bool { return object.key.converter == definition })
}

func (c *conversionCache) dropWhere(useless func(*convertedObject) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.mu.objects {
		if useless(object) {
			c.dropLocked(object)
		}
	}
}
