package transcode

import (
	"sync/atomic"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Normalizer finds the normal forms of a resource's objects: what Kubernetes would store for them
// now. It is for objects that are sent otherwise than they are stored. An older version has
// stored them without a field, or in another version, or a definition has a new default.
//
// Let N be the normal bytes of stored bytes S: decoded, with defaults, and encoded for storage.
// Kubernetes sends for N what it sends for S, because both decode to the same object.
// Kubernetes tests that for each kind. Here it is compared for each fingerprint of N, and
// for a sample of the objects. So an object is normalized once, and is then like any other.
//
// A nil Normalizer finds no normal form.
type Normalizer struct {
	// stored returns the bytes that Kubernetes would store for an entry's object.
	stored func(*entry.Entry) ([]byte, error)
	// found says that an object had a normal form.
	found atomic.Bool
	// inRow is how many objects in a row had a normal form, up to the last object.
	inRow atomic.Int32
}

// expectAfter is a number of objects in a row that had a normal form. After so many, the
// next object is normalized without a walk through its stored bytes, which would be in
// vain.
const expectAfter = 8

// NewNormalizer makes a Normalizer. stored decodes an entry and encodes the object as Kubernetes
// would store it now. It may be called by several goroutines at a time.
func NewNormalizer(stored func(*entry.Entry) ([]byte, error)) *Normalizer {
	return &Normalizer{stored: stored}
}

// normalize finds the normal form of an entry, and keeps it there. It returns false if it was
// looked for before, or if there is none.
func (n *Normalizer) normalize(e *entry.Entry) bool {
	if n == nil || e.NormalOf(n) != nil {
		return false
	}
	normal := n.find(e)
	e.SetNormal(normal)
	if !normal.Edited() {
		n.inRow.Store(0)
		return false
	}
	n.found.Store(true)
	n.inRow.Add(1)
	return true
}

// HasFound reports whether an object had a normal form that differs from what is stored. Other
// objects probably have one too.
func (n *Normalizer) HasFound() bool { return n != nil && n.found.Load() }

// expects reports whether the next object probably has a normal form.
func (n *Normalizer) expects() bool { return n != nil && n.inRow.Load() >= expectAfter }

func (n *Normalizer) find(e *entry.Entry) *entry.Normal {
	normal := entry.NewNormal(n, nil, nil)
	value, err := n.stored(e)
	if err != nil {
		return normal
	}
	// What cannot be unpacked has no normal form either.
	_ = e.Read(func(stored []byte) error {
		normal = entry.NewNormal(n, stored, value)
		return nil
	})
	return normal
}
