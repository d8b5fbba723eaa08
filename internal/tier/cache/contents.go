package cache

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Contents is everything that a cache holds at one revision. It never changes.
type Contents struct {
	Revision int64
	// Parts have the objects: one part for each resource, and one with the prefix "" for
	// keys that belong to no resource. They are in the order of their prefixes.
	Parts []Part
}

// Part is the objects of one resource.
type Part struct {
	// Prefix precedes the keys of the entries in etcd.
	Prefix string
	// GroupResource names the resource. It is empty for keys of no resource.
	GroupResource schema.GroupResource
	// Decrypted says that values may differ from what etcd stores, because they were
	// decrypted.
	Decrypted bool
	// ChangedAt is a revision since which no object has changed, up to Contents.Revision.
	ChangedAt int64
	Snapshot  Snapshot
}

// Contents returns what the cache holds now. It fails with ErrNotReady if the cache is not
// loaded. It copies no object: the writer waits a moment for each resource.
func (c *Cache) Contents() (Contents, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if !c.loaded.Load() {
		return Contents{}, ErrNotReady
	}
	all := Contents{Revision: c.write.applied}
	for _, r := range append(c.Resources(), c.unclaimed) {
		snapshot := r.snapshotOf(r.state.Load(), c.write.applied)
		all.Parts = append(all.Parts, Part{
			Prefix: r.spec.Prefix, GroupResource: r.spec.GroupResource, Decrypted: r.decrypted.Load(),
			ChangedAt: r.log.lastChangeRevision(), Snapshot: snapshot,
		})
	}
	slices.SortFunc(all.Parts, func(a, b Part) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return all, nil
}
