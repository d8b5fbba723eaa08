package slo

import (
	"cmp"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// probe measures the way of an object that this server writes and watches itself.
type probe struct {
	mu struct {
		sync.Mutex
		// active is set by the first call of a Probe method.
		active bool
		// whole has times from the beginning of a write to its event, commit from its end.
		whole, commit slidingMinute[sketch]
		// pending is the first write after which not all events have come. It stays until the
		// event of the newest write comes, and is zero if no event is missing.
		pending probeWrite
		// lastRevision is the revision of the newest write whose answer came before its event.
		lastRevision int64
		// lastEvent is the newest event.
		lastEvent probeEvent
		// writeErr is why the last write failed, and watchErr why the last watch ended. They are
		// nil since a write has succeeded, and since an event.
		writeErr, watchErr error
	}
}

// probeWrite has the times of a write: its beginning and its answer.
type probeWrite struct{ began, ended time.Time }

// probeEvent is an event of the probe's watch.
type probeEvent struct {
	revision int64
	at       time.Time
}

// ProbeWrote records a write of the probe's object, with its revision and times.
func (set *Watches) ProbeWrote(revision int64, began, ended time.Time) {
	p := &set.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.active, p.mu.writeErr = true, nil
	// The event may come before the answer to the write.
	if seen := p.mu.lastEvent; seen.revision >= revision {
		p.observeLocked(set, seen.at, probeWrite{began, ended})
		return
	}
	if p.mu.pending == (probeWrite{}) {
		p.mu.pending = probeWrite{began, ended}
	}
	p.mu.lastRevision = revision
}

// ProbeSaw records an event of the probe's watch, with its revision and when it came.
func (set *Watches) ProbeSaw(revision int64, at time.Time) {
	p := &set.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.active, p.mu.watchErr = true, nil
	p.mu.lastEvent = probeEvent{revision, at}
	if p.mu.pending != (probeWrite{}) && revision >= p.mu.lastRevision {
		p.observeLocked(set, at, p.mu.pending)
		p.mu.pending = probeWrite{}
	}
}

// observeLocked counts a write whose event came at seen.
func (p *probe) observeLocked(set *Watches, seen time.Time, write probeWrite) {
	offset := later(seen, write.ended).Sub(set.startedAt)
	observe := func(w *slidingMinute[sketch], from time.Time) {
		d := max(0, seen.Sub(from))
		w.slotFor(offset, fineSlot, (*sketch).reset).observe(d, bucket(d), 1)
	}
	observe(&p.mu.whole, write.began)
	observe(&p.mu.commit, write.ended)
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

// report returns nil if there is no probe.
func (p *probe) report(set *Watches, now time.Time) *serverreport.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.active {
		return nil
	}
	var wholes, commits tally
	p.mu.whole.eachSlot(now.Sub(set.startedAt), fineSlot, wholes.add)
	p.mu.commit.eachSlot(now.Sub(set.startedAt), fineSlot, commits.add)
	row := &serverreport.Probe{Whole: wholes.quantiles(), Commit: commits.quantiles()}
	if p.mu.pending != (probeWrite{}) {
		row.PendingSeconds = max(0, now.Sub(p.mu.pending.ended)).Seconds()
	}
	if err := cmp.Or(p.mu.writeErr, p.mu.watchErr); err != nil {
		row.Error = err.Error()
	}
	return row
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
