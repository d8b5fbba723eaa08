package cache

import "container/heap"

// revisionWait is a function that is called once when the progress reaches a revision. It
// is for watches, of which there are many: a wait costs an entry of a heap and no
// goroutine.
type revisionWait struct {
	revision int64
	reached  func()
	// index is the wait's place in the heap, or notWaiting. Progress.mu guards it.
	index int
}

const notWaiting = -1

// notify calls reached once, when the revision is at least rv: immediately if it is already.
// Otherwise the goroutine that moves the progress forward calls reached, with Cache.write held.
// So reached must not block, and must take none but innermost locks. A concurrent call may come
// after cancel.
func (p *Progress) notify(rv int64, reached func()) (cancel func()) {
	w := &revisionWait{revision: rv, reached: reached, index: notWaiting}
	if !p.addWait(w) {
		reached()
	}
	return func() { p.removeWait(w) }
}

// addWait adds a wait. It returns false, and adds nothing, if the revision is reached.
func (p *Progress) addWait(w *revisionWait) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revision.Load() >= w.revision {
		return false
	}
	heap.Push(&p.mu.waiting, w)
	return true
}

func (p *Progress) removeWait(w *revisionWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.index != notWaiting {
		heap.Remove(&p.mu.waiting, w.index)
	}
}

// hasWaits reports whether a function that notify was given still waits.
func (p *Progress) hasWaits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.waiting) > 0
}

// revisionWaits is a heap, a heap.Interface: the lowest revision comes first.
type revisionWaits []*revisionWait

// popUpTo removes the waits for revisions up to rv, and returns them.
func (h *revisionWaits) popUpTo(rv int64) (over []*revisionWait) {
	for len(*h) > 0 && (*h)[0].revision <= rv {
		over = append(over, heap.Pop(h).(*revisionWait))
	}
	return over
}

func (h revisionWaits) Len() int           { return len(h) }
func (h revisionWaits) Less(i, j int) bool { return h[i].revision < h[j].revision }

func (h revisionWaits) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *revisionWaits) Push(x any) {
	w := x.(*revisionWait)
	w.index = len(*h)
	*h = append(*h, w)
}

// Pop implements heap.Interface.
func (h *revisionWaits) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h, w.index = (*h)[:last], notWaiting
	return w
}
