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
// Kubernetes tests that for each kind. The transcoder compares both answers for each fingerprint
// of N, and for a sample of the objects. An object is normalized once, and is then like any other.
//
// A nil Normalizer finds no normal form.
type Normalizer struct {
	// encodeForStorage returns the bytes that Kubernetes would store for an entry's object now.
	encodeForStorage func(*entry.Entry) ([]byte, error)
	// found says that an object had a normal form.
	found atomic.Bool
	// consecutive is how many of the last objects given to normalize had a normal form, without
	// one between them that had none.
	consecutive atomic.Int32
}

// expectAfter is how many consecutive objects with a normal form there must be for the next one to
// be normalized without a walk through its stored bytes first.
const expectAfter = 8

// NewNormalizer makes a Normalizer. encodeForStorage decodes an entry and encodes the object as
// Kubernetes would store it now. It must be safe for concurrent use.
func NewNormalizer(encodeForStorage func(*entry.Entry) ([]byte, error)) *Normalizer {
	return &Normalizer{encodeForStorage: encodeForStorage}
}

// normalize finds the normal form of an entry, and keeps it there. It returns false if e was
// normalized before, or has no normal form.
func (n *Normalizer) normalize(e *entry.Entry) bool {
	if n == nil || e.NormalOf(n) != nil {
		return false
	}
	normal := n.find(e)
	e.SetNormal(normal)
	if !normal.Edited() {
		n.consecutive.Store(0)
		return false
	}
	n.found.Store(true)
	n.consecutive.Add(1)
	return true
}

// HasFound reports whether an object had a normal form that differs from what is stored. Other
// objects probably have one too.
func (n *Normalizer) HasFound() bool { return n != nil && n.found.Load() }

// expects reports whether the next object probably has a normal form.
func (n *Normalizer) expects() bool { return n != nil && n.consecutive.Load() >= expectAfter }

// find returns the normal form of an entry. It is not edited if the object cannot be decoded or
// its stored bytes cannot be unpacked: Kubernetes encodes such an object.
func (n *Normalizer) find(e *entry.Entry) *entry.Normal {
	normal := entry.NewNormal(n, nil, nil)
	value, err := n.encodeForStorage(e)
	if err != nil {
		return normal
	}
	_ = e.Read(func(stored []byte) error {
		normal = entry.NewNormal(n, stored, value)
		return nil
	})
	return normal
}
