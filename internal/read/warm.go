package read

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/encode"
)

// What many clients list is encoded before they ask: after a start, when the
// cache was loaded anew, and after changes. It is done in idle time, one leaf at
// a time, for forms that are hot: those that a LIST lately asked for, and for a
// while after the start the two that clients of Kubernetes use. Until somebody asks
// for these they are left alone while the resource changes.

const (
	// warmPeriod is the pause between two passes; one that finds everything warm
	// costs a walk through the leaves.
	warmPeriod = 5 * time.Second
	// churnPeriod is the same for what changes all the time: most of what is encoded
	// of it would change again before somebody asks.
	churnPeriod = 30 * time.Second
	// yieldPeriod is how long the warmer waits when requests are being answered.
	yieldPeriod = 20 * time.Millisecond
	// hotPeriod is how long a form stays hot.
	hotPeriod = 10 * time.Minute
	// minWarmObjects objects are worth it; fewer are encoded in a moment.
	minWarmObjects = 200
)

// hotness is when a form was last asked for, or expected to be, in Unix nanoseconds.
type hotness struct {
	last      atomic.Int64
	requested atomic.Bool
}

func (h *hotness) expect(now time.Time) { h.last.Store(now.UnixNano()) }

func (h *hotness) touch(now time.Time) {
	h.last.Store(now.UnixNano())
	if !h.requested.Load() {
		h.requested.Store(true)
	}
}

func (h *hotness) hot(now time.Time) bool { return now.UnixNano()-h.last.Load() < int64(hotPeriod) }

// Warm keeps hot forms encoded until the context ends.
func (t *Tier) Warm(ctx context.Context) {
	ticker := time.NewTicker(warmPeriod)
	defer ticker.Stop()
	last := map[*Route]warmState{}
	for {
		for _, r := range *t.routes.Load() {
			now, w := time.Now(), last[r]
			due, ahead := w.due(r.cfg.Source.Resource().Snapshot().Revision, now)
			if last[r] = w; !due {
				continue
			}
			for _, f := range r.hotForms(now, ahead) {
				t.warmForm(ctx, r, f)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// warmState is what the warmer knows of a route.
type warmState struct {
	// revision was the newest at the last pass, which warmed or not.
	revision int64
	warmed   time.Time
}

// due reports whether a pass warms what is at a revision now: it did not change
// since the last pass, or has changed for long. Ahead are the passes that encode
// what nobody has asked for yet: the first, and those of what did not change.
func (w *warmState) due(revision int64, now time.Time) (due, ahead bool) {
	quiet, first := revision == w.revision, w.warmed.IsZero()
	w.revision = revision
	if !quiet && now.Sub(w.warmed) < churnPeriod {
		return false, false
	}
	w.warmed = now
	return true, quiet || first
}

// hotForms are the forms of whole lists that are hot. Tables are made when they
// are asked for.
func (r *Route) hotForms(now time.Time, ahead bool) []*encode.Form {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var hot []*encode.Form
	for _, made := range r.mu.forms {
		if made.form != nil && !made.form.IsTable() && made.hotness.hot(now) && (ahead || made.hotness.requested.Load()) {
			hot = append(hot, made.form)
		}
	}
	return hot
}

// warmForm encodes what is cold of one form. It stops when the budget's share for
// it is used up or the context ends.
func (t *Tier) warmForm(ctx context.Context, r *Route, f *encode.Form) {
	snapshot := r.cfg.Source.Resource().Snapshot()
	if snapshot.Len() < minWarmObjects || snapshot.Opaque > 0 {
		return
	}
	for span := range snapshot.Spans("") {
		if !t.idle(ctx) {
			return
		}
		t.warming.Store(true)
		more, err := f.Warm(span, snapshot.Bytes)
		t.warming.Store(false)
		if err != nil || !more {
			return // The first request that meets the same error logs it (failureLog).
		}
	}
}

// Warming reports whether something is encoded that nobody has asked for yet.
func (t *Tier) Warming() bool { return t.warming.Load() }

// idle waits until no request is being answered. It returns false when the
// context has ended.
func (t *Tier) idle(ctx context.Context) bool {
	for t.answering.Load() > 0 {
		select {
		case <-time.After(yieldPeriod):
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}
