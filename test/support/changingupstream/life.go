package changingupstream

import "strings"

// Life is the state of an object, as far as the script that writes it knows.
type Life struct {
	UID string
	// Revision is the revision of the last acknowledged write.
	Revision int64
	// Deleting is set before a deletion is sent, and Deleted once it is acknowledged.
	Deleting, Deleted bool
}

// Life returns the state of the object that has a name now.
func (r *Resource) Life(namespace, name string) Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.mu.objects[namespace+"/"+name]; l != nil {
		return *l
	}
	return Life{Deleted: true}
}

// noteWrite notes that a write was acknowledged.
func (r *Resource) noteWrite(o *Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.objects[o.Namespace+"/"+o.Name] = &Life{UID: o.UID, Revision: o.Revision}
	r.acknowledge(o.Revision)
}

// noteDeleting notes that objects are about to be deleted: one object, or with an empty name all
// objects of a namespace, or of all namespaces.
func (r *Resource) noteDeleting(namespace, name string) {
	r.change(namespace, name, func(l *Life) { l.Deleting = true })
}

// noteDeleted notes that these deletions were acknowledged.
func (r *Resource) noteDeleted(namespace, name string) {
	r.change(namespace, name, func(l *Life) { l.Deleted = l.Deleting })
}

// change calls update for the objects that noteDeleting describes.
func (r *Resource) change(namespace, name string, update func(*Life)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, l := range r.mu.objects {
		switch {
		case name != "" && key != namespace+"/"+name:
		case name == "" && namespace != "" && !strings.HasPrefix(key, namespace+"/"):
		default:
			update(l)
		}
	}
}
