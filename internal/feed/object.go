package feed

// Object is one version of one object as its source stores or sends it, or its deletion. It is
// passed by value: an event costs its sink no memory of its own.
type Object struct {
	// Key is the object's key in etcd. Where the source is an API server, it is the key
	// that the object would have there.
	Key []byte
	// Value is a stored form of the object. It is nil if the object was deleted. It
	// belongs to the object and is not changed any more: sinks may keep it.
	Value []byte
	// Revision is the revision of the change that made this version: etcd's, or the resource
	// version.
	Revision int64
	// Deleted says that the change was the object's deletion.
	Deleted bool
}
