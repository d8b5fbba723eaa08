package slo

import (
	"sync"
	"time"
)

// resourceAccount is the account of the watches of one resource. What reports say of
// resources, and most metrics, is from these accounts.
//
// Lock order: Watches.mu, then resourceAccount.mu, then deliveryBuffer.mu.
type resourceAccount struct {
	set       *Watches
	name      string
	objective time.Duration

	mu struct {
		sync.Mutex
		// history is the History of the watch that was opened last.
		history History
		// pending has deliveries that are not counted yet. It is nil while there are none.
		pending *[deliveryBatch]delivery
		// pendingCount is how many elements of pending are in use.
		pendingCount int
		lastMinute   slidingMinute[resourceSlot]
		burn         burnCounter
		// events and bytes were delivered since the account was made.
		events, bytes uint64
		// expired counts the calls of Watch.Expired.
		expired uint64
		totals  totals
	}
}

func (r *resourceAccount) setHistory(h History) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.history = h
}

// observeLocked counts a run of spans. An empty run counts nothing.
func (r *resourceAccount) observeLocked(run *spanRun) {
	if run.count == 0 {
		return
	}
	m := r.mu.burn.minuteFor(run.end)
	m.all += run.count
	if run.lateStage != noStage {
		m.late += run.count
	}
	r.mu.totals.observe(run)
	if slot := r.mu.lastMinute.slotFor(run.end, fineSlot, (*resourceSlot).reset); slot != nil {
		slot.observe(run)
	}
}

// resourceSlot sums the spans of a resource within fineSlot.
type resourceSlot struct {
	spans  sketch
	stages [spanStageCount]sketch
	bands  spanBands
	// bytes counts the bytes of all spans, lateBytes the bytes of late spans.
	bytes, lateBytes uint64
	// lateBy counts late spans by their longest stage.
	lateBy [spanStageCount]uint32
}

func (s *resourceSlot) reset() {
	s.spans.reset()
	for i := range s.stages {
		s.stages[i].reset()
	}
	s.bands.reset()
	s.bytes, s.lateBytes, s.lateBy = 0, 0, [spanStageCount]uint32{}
}

func (s *resourceSlot) observe(run *spanRun) {
	s.spans.observe(run.span, run.bucket, run.count)
	b := s.bands.band(run.bucket / bandBuckets)
	b.count += run.count
	for i, d := range run.stages {
		s.stages[i].observe(d, run.stageBuckets[i], run.count)
		b.stages[i] += d * time.Duration(run.count)
	}
	s.bytes += run.bytes
	if run.lateStage != noStage {
		s.lateBy[run.lateStage.index()] += run.count
		s.lateBytes += run.bytes
	}
}
