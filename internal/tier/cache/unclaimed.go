package cache

import (
	"maps"
	"slices"
)

// This file has what comparisons with etcd need of the keys that belong to no registered
// resource. Servers register custom resources at different times. Their digests are equal all
// the same, because a digest includes the unclaimed keys.

// UnclaimedKeys returns the keys of no registered resource, as a resource whose prefix is
// empty. It is for Compare and BeginReload.
func (c *Cache) UnclaimedKeys() *Resource { return c.unclaimed }

// NextUnclaimedRange does what Resource.NextRange does, for the unclaimed keys below a prefix.
// The range has no key of a registered resource.
func (c *Cache) NextUnclaimedRange(prefix, from string, objects int) (keys KeyRange, last bool) {
	end := prefixEnd(prefix)
	keys = KeyRange{From: c.afterClaimed(max(from, prefix)), End: end}
	if next := c.nextPrefix(keys.From); next != "" {
		keys.End = min(next, end)
	}
	size := 0
	for e := range c.unclaimed.state.Load().tree.All("", keys.From) {
		if e.Key >= keys.End {
			break
		}
		if objects == 0 || size > maxRangeBytes {
			keys.End = e.Key
			return keys, false
		}
		objects--
		size += e.Size()
	}
	return keys, c.afterClaimed(keys.End) >= end
}

// afterClaimed returns key, or the first larger key that belongs to no registered resource.
func (c *Cache) afterClaimed(key string) string {
	for r := c.ownerOf(key); r != c.unclaimed; r = c.ownerOf(key) {
		key = prefixEnd(r.spec.Prefix)
	}
	return key
}

// nextPrefix returns the first prefix of a registered resource after key, or "".
func (c *Cache) nextPrefix(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.prefixes == nil {
		c.mu.prefixes = slices.Sorted(maps.Keys(c.mu.resources))
	}
	i, found := slices.BinarySearch(c.mu.prefixes, key)
	if found {
		i++
	}
	if i == len(c.mu.prefixes) {
		return ""
	}
	return c.mu.prefixes[i]
}

// snapshotAt returns r.At. It holds write if r is unclaimed, whose log is replaced under write.
func (c *Cache) snapshotAt(r *Resource, revision int64) (Snapshot, error) {
	if r == c.unclaimed {
		c.write.Lock()
		defer c.write.Unlock()
	}
	return r.At(revision)
}
