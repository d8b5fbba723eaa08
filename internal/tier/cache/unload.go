package cache

// This file makes a loaded cache one that is not loaded: its source is not followed any more, or
// must be loaded again.

// Suspend makes reads find the cache not loaded, until the next load has ended. Watches go
// on: they get no events until then, and their positions expire when the load ends. The feed must
// have ended.
func (c *Cache) Suspend() {
	c.write.Lock()
	defer c.write.Unlock()
	c.suspendLocked()
}

func (c *Cache) suspendLocked() {
	c.loaded.Store(false)
	c.write.applied = 0
	c.progress.restart()
}

// Unload is Suspend, but the positions of watches expire immediately. Objects stay in memory until
// Free, for reads that have begun.
func (c *Cache) Unload() {
	c.write.Lock()
	defer c.write.Unlock()
	applied := c.write.applied
	c.suspendLocked()
	for _, r := range append(c.Resources(), c.unclaimed) {
		r.log.reset(applied, 0, func() {})
	}
}

// Free drops the objects of a cache that is not loaded. It does nothing to a loaded cache. The
// caller lets some time pass after Suspend or Unload, for reads that take their Snapshot after
// they have found the cache loaded.
func (c *Cache) Free() {
	c.write.Lock()
	defer c.write.Unlock()
	if c.loaded.Load() {
		return
	}
	for _, r := range append(c.Resources(), c.unclaimed) {
		r.replaceLocked(nil, 0, c.write.applied, 0)
	}
}
