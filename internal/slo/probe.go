package slo

import (
	"sync"
	"time"
)

// probe is what is known of the object that this server writes and watches.
type probe struct {
	mu struct {
		sync.Mutex
		on     bool
		commit window[sketch]
		// written is when the newest write ended that was not seen yet, for its
		// revision.
		written  time.Time
		revision int64
		seen     seenRevision
		err      error
	}
}

type seenRevision struct {
	revision int64
	at       time.Time
}

// ProbeWrote says that the probe's object was written at a revision.
func (x *Watches) ProbeWrote(revision int64, at time.Time) {
	p := &x.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.on = true
	// The event may be faster than the answer to the write.
	if seen := p.mu.seen; seen.revision >= revision {
		p.doneLocked(x, seen.at, at)
		return
	}
	if p.mu.written.IsZero() {
		p.mu.written = at
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
	if !p.mu.written.IsZero() && revision >= p.mu.revision {
		p.doneLocked(x, at, p.mu.written)
		p.mu.written = time.Time{}
	}
}

func (p *probe) doneLocked(x *Watches, seen, written time.Time) {
	d := max(0, seen.Sub(written))
	p.mu.commit.at(later(seen, written).Sub(x.began), fine, (*sketch).reset).observe(d, bucket(d), 1)
}

// ProbeFailed says why the probe cannot write or watch, or with nil that it can again.
func (x *Watches) ProbeFailed(err error) {
	x.probe.mu.Lock()
	defer x.probe.mu.Unlock()
	x.probe.mu.on = true
	x.probe.mu.err = err
}

// report is nil without a probe.
func (p *probe) report(x *Watches, now time.Time) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.on {
		return nil
	}
	var commits tally
	p.mu.commit.each(now.Sub(x.began), fine, commits.add)
	told := &Probe{Commit: commits.quantiles()}
	if !p.mu.written.IsZero() {
		told.Pending = max(0, now.Sub(p.mu.written)).Seconds()
	}
	if p.mu.err != nil {
		told.Error = p.mu.err.Error()
	}
	return told
}
