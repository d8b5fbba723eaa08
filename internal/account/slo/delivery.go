package slo

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// delivery is events of one arrival that a write delivered to watches of one buffer. Of a
// partialWrite, one delivery has the bytes, and the others have the events that are complete.
// Points of time are offsets from Watches.startedAt.
type delivery struct {
	buffer *deliveryBuffer
	// arrival is nil for events without a span.
	arrival *entry.Arrival
	count   uint32
	// size is the bytes of the events. bytes is the bytes that the write delivered. For a
	// partialWrite one of them is 0.
	size, bytes uint64
	// fillBegan and encoded are from the first write after the events were queued. began and
	// ended are from the last write that carried the events.
	fillBegan, encoded, began, ended time.Duration
	// writing is how long the connection was writing from busySince to began.
	busySince, writing time.Duration
	// stalled is how long the client's flow-control windows were closed from stalledSince to
	// ended.
	stalledSince, stalled time.Duration
}

// deliveryBatch is how many deliveries a resource counts together. After a write,
// neither the accounts nor the code that counts are in the processor's caches. A batch
// loads them once.
const deliveryBatch = 32

var batchPool = sync.Pool{New: func() any { return new([deliveryBatch]delivery) }}

// addDelivery adds a delivery of a write to the batch, and counts the batch if it is
// full. It completes the delivery's times from the write.
func (r *resourceAccount) addDelivery(w *Write, d delivery) {
	t := r.set.startedAt
	d.began, d.ended, d.busySince, d.writing = w.Began.Sub(t), w.Ended.Sub(t), w.BusySince.Sub(t), w.Writing
	if d.encoded == 0 {
		d.fillBegan, d.encoded = w.FillBegan.Sub(t), d.began
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.pending == nil {
		r.mu.pending = batchPool.Get().(*[deliveryBatch]delivery)
	}
	r.mu.pending[r.mu.pendingCount] = d
	if r.mu.pendingCount++; r.mu.pendingCount == deliveryBatch {
		r.countPendingLocked()
	}
}

// countPending counts the deliveries of the batch, full or not.
func (r *resourceAccount) countPending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countPendingLocked()
}

// countPendingLocked counts the deliveries of the batch and gives it back to the pool.
// Successive deliveries with the same span are observed as one spanRun.
func (r *resourceAccount) countPendingLocked() {
	if r.mu.pendingCount == 0 {
		return
	}
	list := r.mu.pending[:r.mu.pendingCount]
	for i := range list {
		// This loads the buffers into the processor's caches. These loads overlap. Without them,
		// the locks below would wait for one load after the other.
		list[i].buffer.mu.pendingCount.Load()
	}
	var run spanRun
	for i := range list {
		d := &list[i]
		r.mu.events += uint64(d.count)
		r.mu.bytes += d.bytes
		if d.arrival != nil {
			if i == 0 || !d.sameSpan(&list[i-1]) || run.count == 0 {
				r.observeLocked(&run)
				run.measure(d, r)
			}
			run.count += d.count
			run.bytes += d.size
		}
		d.buffer.addDelivery(d, &run)
	}
	r.observeLocked(&run)
	clear(list)
	batchPool.Put(r.mu.pending)
	r.mu.pending, r.mu.pendingCount = nil, 0
}
