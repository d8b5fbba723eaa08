package crd

import (
	"sync"
	"time"
	"weak"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/resource"
)

// conversionCache keeps what webhooks have converted, of all definitions, within a
// bound of bytes. For room it drops of a few at random what was used longest ago: of
// lists that are larger than the cache, most is still there the next time. What belongs
// to an object that is in no cache and no history any more goes when it is idle.
type conversionCache struct {
	limit int64
	idle  time.Duration
	clock clock.PassiveClock

	// mu is a leaf.
	mu struct {
		sync.Mutex
		objects map[conversionKey]*convertedObject
		bytes   int64
	}
}

// retention is what the cache knows of a conversion. Its lock guards it.
type retention struct {
	key conversionKey
	// source is the entry that was converted, as far as one was met.
	source weak.Pointer[resource.Entry]
	used   time.Time
}

func newConversionCache(limit int64, idle time.Duration, c clock.PassiveClock) *conversionCache {
	made := &conversionCache{limit: limit, idle: idle, clock: c}
	made.mu.objects = map[conversionKey]*convertedObject{}
	return made
}

// conversionOverhead is about what a conversion takes beside its content.
const conversionOverhead = 448

func (c *convertedObject) cost() int64 { return int64(cap(c.content)) + conversionOverhead }

// get returns a conversion, nil if there is none.
func (c *conversionCache) get(key conversionKey) *convertedObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.mu.objects[key]
	if made != nil {
		made.used = c.clock.Now()
	}
	return made
}

// setSource notes which entry was converted.
func (c *conversionCache) setSource(made *convertedObject, e *resource.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made.source.Value() == nil {
		made.source = weak.Make(e)
	}
}

// put keeps a conversion.
func (c *conversionCache) put(key conversionKey, made *convertedObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made.key, made.used = key, c.clock.Now()
	c.mu.objects[key] = made
	c.mu.bytes += made.cost()
	for c.mu.bytes > c.limit {
		c.dropLocked(c.evictionCandidateLocked())
	}
}

// evictionCandidateLocked chooses a conversion to drop. The order of a map is random.
func (c *conversionCache) evictionCandidateLocked() *convertedObject {
	var oldest *convertedObject
	seen := 0
	for _, made := range c.mu.objects {
		if oldest == nil || made.used.Before(oldest.used) {
			oldest = made
		}
		if seen++; seen == evictionChoices {
			break
		}
	}
	return oldest
}

func (c *conversionCache) dropLocked(made *convertedObject) {
	delete(c.mu.objects, made.key)
	c.mu.bytes -= made.cost()
}

// sweep drops conversions of entries that are gone, when nobody has read them for the
// time of idle: an object that did not change has another entry after its resource was
// packed or loaded anew, and the next reader says so.
func (c *conversionCache) sweep() {
	c.dropWhere(func(made *convertedObject) bool {
		return made.source.Value() == nil && c.clock.Since(made.used) >= c.idle
	})
}

// forget drops all conversions of a definition.
func (c *conversionCache) forget(of *webhookConverter) {
	c.dropWhere(func(made *convertedObject) bool { return made.key.converter == of })
}

func (c *conversionCache) dropWhere(useless func(*convertedObject) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.mu.objects {
		if useless(made) {
			c.dropLocked(made)
		}
	}
}
