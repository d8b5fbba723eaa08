package verify

import (
	"cmp"
	"slices"
	"time"
)

// returnedWrites has acknowledged writes in the order in which they returned. For each write, newest
// has the write with the highest revision among that write and the writes before it.
type returnedWrites struct{ writes, newest []*Write }

// add adds a write that returned after all other writes.
func (r *returnedWrites) add(t *truth, w *Write) {
	newest := w
	if n := len(r.newest); n > 0 && t.revision(r.newest[n-1]) > t.revision(w) {
		newest = r.newest[n-1]
	}
	r.writes = append(r.writes, w)
	r.newest = append(r.newest, newest)
}

// newestBefore returns the write of the highest revision among all that had returned before a
// time, which is given since the start of the run. It returns nil if there is none, or if r is
// nil.
func (r *returnedWrites) newestBefore(called time.Duration) *Write {
	if r == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(r.writes, called, func(w *Write, t time.Duration) int { return cmp.Compare(w.Returned, t) })
	if i == 0 {
		return nil
	}
	return r.newest[i-1]
}
