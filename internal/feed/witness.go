package feed

import "bytes"

// Witness is what a feed has read last, to ask its source about: two histories that part
// before the witness differ in it. The zero value knows nothing. Copies are independent.
type Witness struct {
	// newest is the newest object, and second the newest but one. They have no key if they are
	// not known: they were deleted, or there are no objects.
	newest, second Object
	// deleted is the newest deletion. It has no key if an object is newer, or if there was
	// none.
	deleted Object
}

// WitnessOf returns the witness of objects of which only the newest is known. newest may
// be nil.
func WitnessOf(newest *Object) (w Witness) {
	if newest != nil {
		w.newest = *newest
	}
	return w
}

// Observe takes an object of a load, or the next event.
func (w *Witness) Observe(o *Object) {
	switch {
	case o.Deleted:
		w.forget(o.Key)
		w.deleted = *o
	case w.newest.Key == nil || o.Revision > w.newest.Revision:
		w.forget(o.Key)
		w.newest, w.second, w.deleted = *o, w.newest, Object{}
	case w.second.Key == nil || o.Revision > w.second.Revision:
		w.second = *o
	}
}

// forget forgets the version of an object that has changed or was deleted.
func (w *Witness) forget(key []byte) {
	if bytes.Equal(w.second.Key, key) {
		w.second = Object{}
	}
	if bytes.Equal(w.newest.Key, key) {
		w.newest, w.second = w.second, Object{}
	}
}

// HasObject reports whether an object is known.
func (w *Witness) HasObject() bool { return w.newest.Key != nil }

// KnownObjects returns what the source can be asked about: at most one object, and one deletion.
func (w *Witness) KnownObjects() (known []Object) {
	if w.newest.Key != nil {
		known = append(known, w.newest)
	}
	if w.deleted.Key != nil {
		known = append(known, w.deleted)
	}
	return known
}
