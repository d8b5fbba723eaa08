package cache

// Usage is the memory that a resource takes. Sizes are in bytes.
type Usage struct {
	Objects int
	// Values is the size of the stored objects as the cache keeps them. Log is what events hold
	// besides.
	Values, Log int64
	// Forms is the size of the wire bytes that leaves keep, by the form's name.
	Forms map[string]int64
}

// Usage walks the leaves of the resource's tree, one for some tens of objects. It is
// for status pages and metrics, not for the path of a request.
func (r *Resource) Usage() Usage {
	snapshot := r.Snapshot()
	_, logBytes, _ := r.log.Size()
	u := Usage{Objects: snapshot.Len(), Values: snapshot.Packed, Log: logBytes, Forms: map[string]int64{}}
	for run := range snapshot.Runs("") {
		run.Memo.Usage(u.Forms)
	}
	return u
}
