//go:build invariants

package encode

import "fmt"

// invariantsEnabled says that sums are checked after each change. Each check walks all
// cells, so it is for tests alone: go test -tags invariants.
const invariantsEnabled = true

// checkLocked panics unless Budget.used is the sum of the costs of all cells, and the
// transient queue's bytes are the sum of its segments' costs.
func (b *Budget) checkLocked() {
	var used int64
	// A cell that was emptied and filled again may stand in a queue twice.
	checked := map[*cell]bool{}
	for _, q := range []*queue{&b.mu.plain, &b.mu.compressed} {
		for _, c := range q.cells {
			if !checked[c] {
				checked[c] = true
				used += c.cost()
			}
		}
	}
	if got := b.used.Load(); got != used || used > b.limit {
		panic(fmt.Sprintf("encode: invariant: the budget says that %d of %d bytes are used, its cells hold %d", got, b.limit, used))
	}
	var transient int64
	for _, seg := range b.mu.transient.segments {
		transient += seg.cost()
	}
	if got := b.mu.transient.bytes; got != transient {
		panic(fmt.Sprintf("encode: invariant: the transient queue says that it has %d bytes, its segments have %d", got, transient))
	}
}

// checkLocked panics unless bytes is the sum of the segments that are counted.
func (a *segmentAdmission) checkLocked() {
	var bytes int64
	for _, s := range a.mu.segments {
		if s.counted {
			bytes += s.bytes
		}
	}
	if a.mu.bytes != bytes {
		panic(fmt.Sprintf("encode: invariant: admission says that readers have %d bytes of large segments, the segments have %d", a.mu.bytes, bytes))
	}
}

// checkLocked panics unless bytes is the sum of the frames' lengths.
func (r *RecentFrames) checkLocked() {
	var bytes int
	for _, f := range r.mu.frames {
		bytes += len(f.bytes)
	}
	if r.mu.bytes != bytes || bytes > r.limit {
		panic(fmt.Sprintf("encode: invariant: recent frames say that they have %d of %d bytes, they have %d", r.mu.bytes, r.limit, bytes))
	}
}
