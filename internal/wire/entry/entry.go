package entry

import (
	"strings"
	"sync/atomic"
)

// Entry is one version of one stored object. It is immutable once a cache has it, except
// for what is found out about its bytes (SetNormal). It may be kept for any time.
type Entry struct {
	// Key is the etcd key without the resource's prefix: "namespace/name" or "name".
	Key string
	// Revision is the etcd revision that wrote this version. It is the object's
	// resourceVersion.
	Revision int64
	// Value is the object in storage form, decrypted. Pack compresses it; Read returns it
	// uncompressed. It belongs to the entry.
	Value []byte
	// packing is the dictionary that Value is compressed with. Nil means that Value is
	// not compressed.
	packing *Packing
	// Attributes are matched with selectors. They are nil if Err is set, or if the
	// attributes of the resource have to be computed from each decoded object.
	Attributes *Attributes
	// Err says why the stored value could not be decrypted or decoded. Such an entry is
	// kept, and Kubernetes' own code answers the reads that touch it.
	Err error
	// UIDHash is the hash of the object's UID, which places the object in a shard. It is
	// set with Attributes, if shards are served.
	UIDHash uint64
	// size is the length of the uncompressed value, set if packing is.
	size int32
	// Altered says that Kubernetes' handlers alter the object on its way out.
	Altered bool
	// normal is set by a goroutine that has found the entry's normal form while it encoded
	// the entry. Nil means that none has looked.
	normal atomic.Pointer[Normal]
}

// Clone returns a copy of the entry that the caller may change. It shares the value.
func (e *Entry) Clone() *Entry {
	made := &Entry{
		Key: e.Key, Revision: e.Revision, Value: e.Value, packing: e.packing, Attributes: e.Attributes,
		Err: e.Err, UIDHash: e.UIDHash, size: e.size, Altered: e.Altered,
	}
	made.normal.Store(e.normal.Load())
	return made
}

// Opaque reports whether the stored bytes alone do not answer a read of the entry: it is
// unreadable or altered. Kubernetes' own code answers in its place.
func (e *Entry) Opaque() bool { return e.Err != nil || e.Altered }

// Name returns the object's name, the last part of its key.
func (e *Entry) Name() string {
	return e.Key[strings.LastIndexByte(e.Key, '/')+1:]
}

// Namespace returns the object's namespace. It returns "" for a cluster-scoped object.
func (e *Entry) Namespace() string {
	if i := strings.IndexByte(e.Key, '/'); i >= 0 {
		return e.Key[:i]
	}
	return ""
}
