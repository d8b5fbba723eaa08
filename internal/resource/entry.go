package resource

import "strings"

// Entry is one version of one stored object. It never changes after it has
// been handed to a cache; whoever holds it may keep it.
type Entry struct {
	// Key is the part of the etcd key behind the resource's prefix:
	// "namespace/name" or "name".
	Key string
	// Revision is the etcd revision that wrote this version. It is the object's
	// resourceVersion.
	Revision int64
	// Value is the object in storage form, decrypted and, once it is packed,
	// compressed. It belongs to the entry. Read gives it as it was stored.
	Value []byte
	// packing is what Value is compressed with, nil for nothing.
	packing *Packing
	// size is the length before packing.
	size int32
	// Attributes are what selectors see. Nil when the resource's are computed
	// from the decoded object on each use (custom resources), or when Err is set.
	Attributes *Attributes
	// Err says why the stored value could not be read: a failed decryption or
	// decoding. Such an entry holds its place, and reads that touch it are
	// answered by Kubernetes' own code.
	Err error
	// Altered says that Kubernetes' handlers alter the object on its way out,
	// so that its bytes alone do not tell what is served.
	Altered bool
}

// Opaque reports whether the bytes alone do not tell what is served: the entry is
// unreadable or altered. Such an entry is left to Kubernetes' own code.
func (e *Entry) Opaque() bool { return e.Err != nil || e.Altered }

// Name is the object's name: the last part of its key.
func (e *Entry) Name() string {
	return e.Key[strings.LastIndexByte(e.Key, '/')+1:]
}

// Namespace is the object's namespace, "" for a cluster-scoped one.
func (e *Entry) Namespace() string {
	if i := strings.IndexByte(e.Key, '/'); i >= 0 {
		return e.Key[:i]
	}
	return ""
}
