package cache

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/wire/entry"
)

// KeyRange is the keys of etcd from From up to and without End.
type KeyRange struct{ From, End string }

// StoredRange is what etcd had in a range of keys at a revision.
type StoredRange struct {
	KeyRange
	Revision int64
	// Objects are in the order of their keys.
	Objects []feed.Object
	// Values says that Objects have values.
	Values bool
}

// Difference is a key at which the cache and etcd disagree. A revision is 0 if there is no
// object. With equal revisions the bytes differ.
type Difference struct {
	Key            string
	Cached, Stored int64
}

// String returns the key and both revisions, for logs.
func (d Difference) String() string {
	return fmt.Sprintf("%s (cache %d, etcd %d)", d.Key, d.Cached, d.Stored)
}

// maxRangeBytes is the size of stored objects beyond which NextRange ends a range.
const maxRangeBytes = 4 << 20

// NextRange returns the range of a resource's keys that begins at from and has at most
// that many objects, of some MiB together. An empty from is the beginning. The range
// reaches to the end of the resource's keys if the cache has no more of them; last says
// so.
func (r *Resource) NextRange(from string, objects int) (keys KeyRange, last bool) {
	keys = KeyRange{From: max(from, r.spec.Prefix), End: prefixEnd(r.spec.Prefix)}
	size := 0
	for e := range r.state.Load().tree.All("", keys.From[len(r.spec.Prefix):]) {
		if objects == 0 || size > maxRangeBytes {
			keys.End = r.spec.Prefix + e.Key
			return keys, false
		}
		objects--
		size += e.Size()
	}
	return keys, true
}

// Compare compares a range of a resource's keys with etcd. The cache must have reached the
// revision. ErrExpired says that the resource's log does not reach back to it, or has more than
// maxUndo later events.
func (c *Cache) Compare(ctx context.Context, r *Resource, stored *StoredRange) ([]Difference, error) {
	then, err := c.snapshotAt(r, stored.Revision)
	if err != nil {
		return nil, err
	}
	prefix := r.spec.Prefix
	end := ""
	if strings.HasPrefix(stored.End, prefix) {
		end = stored.End[len(prefix):]
	}
	var cached []*entry.Entry
	then.walkRange(stored.From[len(prefix):], end, func(e *entry.Entry) { cached = append(cached, e) })
	var found []Difference
	objects := stored.Objects
	for len(cached) > 0 || len(objects) > 0 {
		order := compareHeads(prefix, cached, objects)
		d := Difference{}
		if order <= 0 {
			d.Key, d.Cached = prefix+cached[0].Key, cached[0].Revision
		}
		if order >= 0 {
			d.Key, d.Stored = string(objects[0].Key), objects[0].Revision
		}
		switch {
		case order > 0 && c.ownerOf(d.Key) != r: // the key of a resource with a longer prefix
		case d.Cached != d.Stored, stored.Values && !r.holdsValue(ctx, cached[0], &objects[0]):
			found = append(found, d)
		}
		if order <= 0 {
			cached = cached[1:]
		}
		if order >= 0 {
			objects = objects[1:]
		}
	}
	return found, nil
}

// compareHeads compares the keys at the heads of two lists. An empty list has the largest
// key.
func compareHeads(prefix string, cached []*entry.Entry, objects []feed.Object) int {
	switch {
	case len(cached) == 0:
		return 1
	case len(objects) == 0:
		return -1
	}
	return cmp.Compare(cached[0].Key, string(objects[0].Key[len(prefix):]))
}

// holdsValue reports whether an entry has the bytes of a stored object. It returns true
// for an unreadable entry, and for an object that cannot be decrypted.
func (r *Resource) holdsValue(ctx context.Context, e *entry.Entry, o *feed.Object) bool {
	value := o.Value
	if e.Err != nil {
		return true
	}
	if r.spec.Open != nil {
		var err error
		if value, err = r.spec.Open(ctx, string(o.Key), value); err != nil {
			return true
		}
	}
	same := false
	err := e.Read(func(cached []byte) error {
		same = bytes.Equal(cached, value)
		return nil
	})
	return err == nil && same
}
