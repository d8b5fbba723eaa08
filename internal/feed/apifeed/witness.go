package apifeed

import (
	"bytes"

	"github.com/millrace/millrace/internal/feed"
)

// witness is what a feed has read last: two histories that part before it differ in it. The
// zero value knows nothing.
type witness struct {
	// newest is the newest object, and second the one before it. They are nil if they are
	// not known: they were deleted, or there are no objects.
	newest, second *feed.Object
	// deleted is the newest deletion, nil if an object is newer or if there was none.
	deleted *feed.Object
}

// witnessOf is the witness of objects of which only the newest is known.
func witnessOf(newest *feed.Object) witness { return witness{newest: newest} }

// observe takes an object of a load, or an event behind those before.
func (w *witness) observe(o *feed.Object) {
	switch {
	case o.Deleted:
		w.forget(o.Key)
		deleted := *o
		w.deleted = &deleted
	case w.newest == nil || o.Revision > w.newest.Revision:
		w.forget(o.Key)
		newest := *o // a reference would hold on to the page that the object is in
		w.newest, w.second, w.deleted = &newest, w.newest, nil
	case w.second == nil || o.Revision > w.second.Revision:
		second := *o
		w.second = &second
	}
}

// forget forgets the version of an object that has another one now.
func (w *witness) forget(key []byte) {
	if w.second != nil && bytes.Equal(w.second.Key, key) {
		w.second = nil
	}
	if w.newest != nil && bytes.Equal(w.newest.Key, key) {
		w.newest, w.second = w.second, nil
	}
}

// known returns what the server can be asked about, at most one object and one deletion.
func (w *witness) known() (known []*feed.Object) {
	if w.newest != nil {
		known = append(known, w.newest)
	}
	if w.deleted != nil {
		known = append(known, w.deleted)
	}
	return known
}
