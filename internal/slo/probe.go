package slo

import (
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// probe is what is known of the object that this server writes and watches.
type probe struct {
	mu struct {
		sync.Mutex
		on            bool
		whole, commit window[sketch]
		// written is the oldest write that was not seen yet, revision the newest.
		written  written
		revision int64
		seen     seenRevision
		err      error
	}
}

// written is when a write began, and when it was answered.
type written struct{ began, ended time.Time }

type seenRevision struct {
	revision int64
	at       time.Time
}

// ProbeWrote says that the probe's object was written at a revision, by a write that
// began and ended then.
func (x *Watches) ProbeWrote(revision int64, began, ended time.Time) {
	p := &x.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.on = true
	// The event may be faster than the answer to the write.
	if seen := p.mu.seen; seen.revision >= revision {
		p.doneLocked(x, seen.at, written{began, ended})
		return
	}
	if p.mu.written == (written{}) {
		p.mu.written = written{began, ended}
	}
	p.mu.revision = revision
}

// ProbeSaw says that the watch of the probe's object showed a revision.
func (x *Watches) ProbeSaw(revision int64, at time.Time) {
	p := &x.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.on = true
	p.mu.seen = seenRevision{revision, at}
	if p.mu.written != (written{}) && revision >= p.mu.revision {
		p.doneLocked(x, at, p.mu.written)
		p.mu.written = written{}
	}
}

func (p *probe) doneLocked(x *Watches, seen time.Time, by written) {
	now := later(seen, by.ended).Sub(x.began)
	observe := func(w *window[sketch], from time.Time) {
		d := max(0, seen.Sub(from))
		w.at(now, fine, (*sketch).reset).observe(d, bucket(d), 1)
	}
	observe(&p.mu.whole, by.began)
	observe(&p.mu.commit, by.ended)
}

// ProbeFailed says why the probe cannot write or watch, or with nil that it can again.
func (x *Watches) ProbeFailed(err error) {
	x.probe.mu.Lock()
	defer x.probe.mu.Unlock()
	x.probe.mu.on = true
	x.probe.mu.err = err
}

// report is nil without a probe.
func (p *probe) report(x *Watches, now time.Time) *report.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.on {
		return nil
	}
	var wholes, commits tally
	p.mu.whole.each(now.Sub(x.began), fine, wholes.add)
	p.mu.commit.each(now.Sub(x.began), fine, commits.add)
	told := &report.Probe{Whole: wholes.quantiles(), Commit: commits.quantiles()}
	if p.mu.written != (written{}) {
		told.Pending = max(0, now.Sub(p.mu.written.ended)).Seconds()
	}
	if p.mu.err != nil {
		told.Error = p.mu.err.Error()
	}
	return told
}
