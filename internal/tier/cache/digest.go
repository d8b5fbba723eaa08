package cache

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Digest stands for a set of objects: it is the sum of a hash of each object's key and
// revision. Two caches with different objects have the same digest with a probability of
// 2^-128. It finds faults. It is no protection against someone who chooses keys to match.
//
// A sum does not depend on the order of its parts. So a change costs two hashes, however many
// objects there are, and the digest of everything is the sum of its parts' digests. A
// revision stands for the bytes of the object: etcd writes a key once in a revision.
type Digest struct{ High, Low uint64 }

// ErrNotReached says that the cache does not hold a revision yet.
var ErrNotReached = errors.New("revision not reached")

// String returns 32 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.High, d.Low) }

// ParseDigest reads what String has written.
func ParseDigest(text string) (d Digest, err error) {
	if len(text) != 32 {
		return d, fmt.Errorf("digest %q has not 32 digits", text)
	}
	if _, err = fmt.Sscanf(text, "%016x%016x", &d.High, &d.Low); err != nil {
		return Digest{}, fmt.Errorf("read digest %q: %w", text, err)
	}
	return d, nil
}

// Add returns the digest of the objects of two digests.
func (d Digest) Add(o Digest) Digest { return Digest{d.High + o.High, d.Low + o.Low} }

// subtract undoes Add.
func (d Digest) subtract(o Digest) Digest { return Digest{d.High - o.High, d.Low - o.Low} }

// objectDigest returns the digest of one object. prefix precedes its key in etcd. A nil
// entry has the digest of nothing.
func objectDigest(prefix string, e *entry.Entry) Digest {
	if e == nil {
		return Digest{}
	}
	var h xxhash.Digest
	h.Reset()
	// Writes to a hash never fail.
	_, _ = h.WriteString(prefix)
	_, _ = h.WriteString(e.Key)
	key, revision := h.Sum64(), mix(uint64(e.Revision))
	return Digest{mix(key ^ revision), mix(bits.RotateLeft64(key, 32) + revision)}
}

// mix spreads each bit over all 64: the finalizer of the generator SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// DigestAlgorithm is the number of the way in which digests are computed. It changes with
// objectDigest, so that servers do not compare what cannot be equal.
const DigestAlgorithm = 1

// maxDigestUndo is the largest number of events, of all resources together, that are undone
// for a digest. They take 50 ms (docs/bench/cache.md).
const maxDigestUndo = 100_000

// digestUndo is the newest digest of a resource, and the events that have to be undone.
type digestUndo struct {
	prefix string
	digest Digest
	events []Event
}

// digestUndo returns the newest digest, and the events after revision, which the cache
// has reached. ErrExpired says that the log lacks some of the events, or has more than
// most. The log is asked even if there is no later change: the resource may have begun
// after the revision.
func (r *Resource) digestUndo(revision int64, most int) (u digestUndo, err error) {
	u.prefix = r.spec.Prefix
	u.events, err = r.log.eventsAfter(revision, most, func() { u.digest = r.state.Load().digest })
	return u, err
}

// undone returns the digest as it was before the events.
func (u *digestUndo) undone() Digest {
	d := u.digest
	for i := range u.events {
		e := &u.events[i]
		d = d.subtract(objectDigest(u.prefix, e.Entry)).Add(objectDigest(u.prefix, e.Previous))
	}
	return d
}

// Digest returns the digest of all objects, including unclaimed ones, and the revision of that
// digest. The error is ErrNotReached if the cache is not loaded.
func (c *Cache) Digest() (d Digest, revision int64, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	undo, err := c.digestUndoLocked(c.write.applied)
	return sumUndone(undo), c.write.applied, err
}

// DigestAt returns the digest of all objects at revision: the newest one with the later
// events undone. The error is ErrNotReached, or ErrExpired if the logs do not reach
// back to the revision or have more than maxDigestUndo later events. The feed waits
// only while references to the events are copied.
func (c *Cache) DigestAt(revision int64) (Digest, error) {
	c.write.Lock()
	undo, err := c.digestUndoLocked(revision)
	c.write.Unlock()
	return sumUndone(undo), err
}

func (c *Cache) digestUndoLocked(revision int64) ([]digestUndo, error) {
	if !c.loaded.Load() || revision > c.write.applied {
		return nil, ErrNotReached
	}
	// The events of a resource that was released went with it.
	for _, released := range c.write.released {
		if released.revision > revision {
			return nil, ErrExpired
		}
	}
	all := append(c.Resources(), c.unclaimed)
	undo, most := make([]digestUndo, len(all)), maxDigestUndo
	for i, r := range all {
		var err error
		if undo[i], err = r.digestUndo(revision, most); err != nil {
			return nil, err
		}
		most -= len(undo[i].events)
	}
	return undo, nil
}

func sumUndone(undo []digestUndo) (sum Digest) {
	for i := range undo {
		sum = sum.Add(undo[i].undone())
	}
	return sum
}

// HoldsDigest reports whether the digest that the newest state keeps is that of its objects.
// It visits all objects, and takes no lock.
func (r *Resource) HoldsDigest() bool {
	newest := r.state.Load()
	return newest.tree.digest(r.spec.Prefix) == newest.digest
}

// digest returns the digest of the tree's entries.
func (t Tree) digest(prefix string) (d Digest) {
	for e := range t.All("", "") {
		d = d.Add(objectDigest(prefix, e))
	}
	return d
}
