package changingupstream

// Life is what a script knows of an object that it writes.
type Life struct {
	UID string
	// Revision is that of the last write that was acknowledged.
	Revision int64
	// Deleting is set before a deletion is sent, and Deleted once it is acknowledged.
	Deleting, Deleted bool
}

// Life returns what is known of the object that has a name now.
func (r *Resource) Life(namespace, name string) Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.mu.objects[namespace+"/"+name]; l != nil {
		return *l
	}
	return Life{Deleted: true}
}

// wrote notes that a write was acknowledged.
func (r *Resource) wrote(o *Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.objects[o.Namespace+"/"+o.Name] = &Life{UID: o.UID, Revision: o.Revision}
	r.acknowledge(o.Revision)
}

// deletes notes that objects are about to be deleted: one, or with an empty name those of a
// namespace, or all.
func (r *Resource) deletes(namespace, name string) {
	r.change(namespace, name, func(l *Life) { l.Deleting = true })
}

// deleted notes that these deletions were acknowledged.
func (r *Resource) deleted(namespace, name string) {
	r.change(namespace, name, func(l *Life) { l.Deleted = l.Deleting })
}

func (r *Resource) change(namespace, name string, how func(*Life)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, l := range r.mu.objects {
		switch {
		case name != "" && of != namespace+"/"+name:
		case name == "" && namespace != "" && !hasNamespace(of, namespace):
		default:
			how(l)
		}
	}
}

func hasNamespace(of, namespace string) bool {
	return len(of) > len(namespace) && of[:len(namespace)] == namespace && of[len(namespace)] == '/'
}
