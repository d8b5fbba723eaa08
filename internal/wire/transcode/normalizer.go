package transcode

import "github.com/millrace/millrace/internal/wire/entry"

// Normalizer finds the normal forms of a resource's objects: what Kubernetes would store for them
// now. It is for objects that are sent otherwise than they are stored. An older version has
// stored them without a field, or in another version, or a definition has a new default.
//
// Let N be the normal bytes of stored bytes S: decoded, with defaults, and encoded for storage.
// Kubernetes sends for N what it sends for S, because what is decoded of N is what was decoded of
// S; Kubernetes tests that for each kind, and here it is compared for each fingerprint of N, and
// for a sample of the objects. So an object is normalized once, and is then like any other.
//
// A nil Normalizer finds none.
type Normalizer struct {
	// stored returns the bytes that Kubernetes would store for an entry's object.
	stored func(*entry.Entry) ([]byte, error)
}

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
	found := n.find(e)
	e.SetNormal(found)
	return found.Edited()
}

func (n *Normalizer) find(e *entry.Entry) *entry.Normal {
	found := entry.NewNormal(n, nil, nil)
	normal, err := n.stored(e)
	if err != nil {
		return found
	}
	// What cannot be unpacked has no normal form either.
	_ = e.Read(func(stored []byte) error {
		found = entry.NewNormal(n, stored, normal)
		return nil
	})
	return found
}
