package cache

import (
	"iter"

	"github.com/millrace/millrace/internal/resource"
)

// packThreshold is the size from which a resource is worth a dictionary of its
// own, which costs some 100 KiB with its encoder.
const packThreshold = 128 << 10

// learn makes a dictionary out of changes that have enough bytes, and packs
// them. Nobody else knows the entries yet. Cache.writing is held.
func (r *Resource) learn(c *Cache, changes []change) {
	if r == c.unclaimed || r.packing.Load() != nil {
		return
	}
	entries := make([]*resource.Entry, 0, len(changes))
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
	p := r.newPacking(c, func(yield func(*resource.Entry) bool) {
		for _, e := range entries {
			if !yield(e) {
				return
			}
		}
	}, size)
	c.parallel(len(entries), func(i int) { entries[i].Pack(p) })
}

// grown packs a state that has come to be worth it by single changes, and
// returns the packed one. Cache.writing is held.
func (r *Resource) grown(c *Cache, s *state) *state {
	if r == c.unclaimed || r.packing.Load() != nil || s.bytes < packThreshold {
		return s
	}
	p := r.newPacking(c, s.tree.All("", ""), s.bytes)
	x := s.edit(&c.cfg)
	for e := range s.tree.All("", "") {
		if e.Err == nil {
			packed := *e
			packed.Pack(p)
			x.step(change{key: e.Key, entry: &packed, revision: e.Revision})
		}
	}
	return x.end()
}

// newPacking makes a dictionary of samples spread over entries that have size
// bytes together. It returns nil when none can be made, and values stay plain.
func (r *Resource) newPacking(c *Cache, entries iter.Seq[*resource.Entry], size int64) *resource.Packing {
	var samples [][]byte
	var seen, taken int64
	for e := range entries {
		// A sample is due whenever this many bytes have gone by.
		if due := taken * size / int64(resource.MaxSampleBytes()); seen >= due && !e.Packed() {
			samples = append(samples, e.Value)
			taken += int64(len(e.Value))
		}
		seen += int64(e.Size())
	}
	p, err := resource.NewPacking(samples)
	if err != nil {
		c.cfg.Logger.Error("Stored objects stay uncompressed in memory", "resource", r.spec.GroupResource.String(), "err", err)
		return nil
	}
	r.packing.Store(p)
	return p
}
