package slo

import (
	"cmp"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// probeAccount is the account of the probe, an object that this server writes and watches itself.
// It has the times from a write to its event.
//
// A write is pending from its answer until its event. Writes during that time are pending too,
// until the event of the newest. Together they count as one time.
type probeAccount struct {
	mu struct {
		sync.Mutex
		// active is set by the first call of a Probe method.
		active bool
		// fromBegin has times from the beginning of a write to its event, fromAnswer from the
		// answer to the write.
		fromBegin, fromAnswer slidingMinute[sketch]
		// pending is the first of the pending writes. It is zero if none is pending.
		pending probeWrite
		// lastPendingRevision is the revision of the newest write that was pending.
		lastPendingRevision int64
		// lastEvent is the newest event.
		lastEvent probeEvent
		// writeErr is the newest error of a write. A write that succeeds clears it. watchErr is
		// the newest error of the watch. An event clears it.
		writeErr, watchErr error
	}
}

// probeWrite has the times of a write: its beginning and its answer.
type probeWrite struct{ began, answered time.Time }

// probeEvent is an event of the probe's watch.
type probeEvent struct {
	revision int64
	at       time.Time
}

// ProbeWrote records a write of the probe's object, with its revision and times.
func (set *Watches) ProbeWrote(revision int64, began, answered time.Time) {
	p := &set.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.active, p.mu.writeErr = true, nil
	// The event may come before the answer to the write.
	if seen := p.mu.lastEvent; seen.revision >= revision {
		p.observeLocked(set, seen.at, probeWrite{began, answered})
		return
	}
	if p.mu.pending == (probeWrite{}) {
		p.mu.pending = probeWrite{began, answered}
	}
	p.mu.lastPendingRevision = revision
}

// ProbeSaw records an event of the probe's watch, with its revision and when it came.
func (set *Watches) ProbeSaw(revision int64, at time.Time) {
	p := &set.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.active, p.mu.watchErr = true, nil
	p.mu.lastEvent = probeEvent{revision, at}
	if p.mu.pending != (probeWrite{}) && revision >= p.mu.lastPendingRevision {
		p.observeLocked(set, at, p.mu.pending)
		p.mu.pending = probeWrite{}
	}
}

// observeLocked counts one time, from write until seen: the event of write or, if more writes were
// pending, of the newest. It counts in the slot of the time at which both are known.
func (p *probeAccount) observeLocked(set *Watches, seen time.Time, write probeWrite) {
	offset := later(seen, write.answered).Sub(set.startedAt)
	observe := func(w *slidingMinute[sketch], from time.Time) {
		d := max(0, seen.Sub(from))
		w.slotFor(offset, fineSlot, (*sketch).reset).observe(d, bucket(d), 1)
	}
	observe(&p.mu.fromBegin, write.began)
	observe(&p.mu.fromAnswer, write.answered)
}

// ProbeWriteFailed records why the probe cannot write.
func (set *Watches) ProbeWriteFailed(err error) {
	set.probe.mu.Lock()
	defer set.probe.mu.Unlock()
	set.probe.mu.active, set.probe.mu.writeErr = true, err
}

// ProbeWatchFailed records why the probe's watch could not begin, or has ended.
func (set *Watches) ProbeWatchFailed(err error) {
	set.probe.mu.Lock()
	defer set.probe.mu.Unlock()
	set.probe.mu.active, set.probe.mu.watchErr = true, err
}

// report returns the probe's part of a report, or nil before the first call of a Probe method.
func (p *probeAccount) report(set *Watches, now time.Time) *serverreport.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.active {
		return nil
	}
	var fromBegin, fromAnswer tally
	p.mu.fromBegin.eachSlot(now.Sub(set.startedAt), fineSlot, fromBegin.add)
	p.mu.fromAnswer.eachSlot(now.Sub(set.startedAt), fineSlot, fromAnswer.add)
	row := &serverreport.Probe{Whole: fromBegin.quantiles(), Commit: fromAnswer.quantiles()}
	if p.mu.pending != (probeWrite{}) {
		row.PendingSeconds = max(0, now.Sub(p.mu.pending.answered)).Seconds()
	}
	if err := cmp.Or(p.mu.writeErr, p.mu.watchErr); err != nil {
		row.Error = err.Error()
	}
	return row
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
