package encode

const (
	// Transient segments may have 1/transientShare of the budget's limit, in addition to
	// it. maxTransientBytes bounds that: enough for some tens of the largest segments
	// (docs/bench/watch.md).
	transientShare    = 4
	maxTransientBytes = 24 << 20
)

// transientQueue keeps the newest large segments a short while. Plain bytes of large
// objects are not worth a place in the budget, because they can be encoded about as fast
// as they are copied. But readers often go through the same large objects one shortly after
// another. The queue keeps a segment alive between such readers, which find it by the weak
// pointer of its slot. The queue's bytes are not part of Budget.UsedBytes.
//
// The zero value is empty. Budget.mu guards it.
type transientQueue struct {
	// segments are in order of arrival, the oldest first.
	segments []*segment
	// bytes is the sum of their costs.
	bytes int64
}

// retainTransient keeps a large segment until newer ones need its room. The caller has
// stored a weak pointer to it, by which other readers find it.
func (b *Budget) retainTransient(seg *segment) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.mu.transient
	q.segments = append(q.segments, seg)
	q.bytes += seg.cost()
	for q.bytes > min(b.limit/transientShare, maxTransientBytes) {
		q.bytes -= q.segments[0].cost()
		q.segments[0] = nil
		q.segments = q.segments[1:]
	}
	b.checkLocked()
}

// ReleaseTransient drops all transient segments. The server calls it when it is quiet
// (memory.Trimmer).
func (b *Budget) ReleaseTransient() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.transient = transientQueue{}
}
