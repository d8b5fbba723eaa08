package cache

import (
	"iter"

	"github.com/millrace/millrace/internal/wire/entry"
)

// packThreshold is the size of values, in bytes, from which a resource gets a dictionary of
// its own. With its encoder a dictionary takes some 100 KiB.
const packThreshold = 128 << 10

// packNewLocked makes the dictionary of a resource that has none, from the entries of some
// changes, and packs these entries. It does nothing if the entries are too small together. No
// other goroutine has the entries yet, so they are changed in place.
func (r *Resource) packNewLocked(c *Cache, changes []change) {
	if r == c.unclaimed || r.packing.Load() != nil {
		return
	}
	entries := make([]*entry.Entry, 0, len(changes))
	var size int64
	for _, ch := range changes {
		if ch.entry != nil && ch.entry.Err == nil {
			entries = append(entries, ch.entry)
			size += int64(ch.entry.Size())
		}
	}
	if size < packThreshold {
		return
	}
	p := r.trainPackingLocked(c, func(yield func(*entry.Entry) bool) {
		for _, e := range entries {
			if !yield(e) {
				return
			}
		}
	}, size)
	c.parallel(len(entries), func(i int) { entries[i].Pack(p) })
}

// packGrownLocked makes the dictionary of a resource that single changes have made large
// enough. It returns s with its entries packed, or s itself if there is nothing to do.
func (r *Resource) packGrownLocked(c *Cache, s *state) *state {
	if r == c.unclaimed || r.packing.Load() != nil || s.bytes < packThreshold {
		return s
	}
	p := r.trainPackingLocked(c, s.tree.All("", ""), s.bytes)
	edit := s.edit(r.cfg)
	for e := range s.tree.All("", "") {
		if e.Err == nil {
			packed := e.Clone()
			packed.Pack(p)
			edit.apply(change{key: e.Key, entry: packed, revision: e.Revision})
		}
	}
	next := edit.finish()
	next.unlogged++
	return next
}

// trainPackingLocked makes the resource's dictionary from samples that are spread over
// entries, whose values have size bytes together. It returns nil if that fails. Values then
// stay unpacked until the next attempt.
func (r *Resource) trainPackingLocked(c *Cache, entries iter.Seq[*entry.Entry], size int64) *entry.Packing {
	var samples [][]byte
	var passed, sampled int64
	for e := range entries {
		// The share of sample bytes taken follows the share of bytes visited.
		if due := sampled * size / int64(entry.MaxSampleBytes()); passed >= due && !e.Packed() {
			samples = append(samples, e.Value)
			sampled += int64(len(e.Value))
		}
		passed += int64(e.Size())
	}
	p, err := entry.NewPacking(samples)
	if err != nil {
		c.cfg.Logger.Error("Stored objects stay uncompressed in memory", "resource", r.spec.GroupResource.String(), "err", err)
		return nil
	}
	r.packing.Store(p)
	return p
}
