package read

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/wire/encode"
)

// Warming encodes what many clients list before they ask: after a start, when the cache was
// loaded again, and after changes. It runs while no request is answered, one leaf at a time, for
// forms of built-in resources that are hot.
//
// A form is hot for a while after a LIST without selectors has asked for it. After a start the
// two forms that clients of Kubernetes use are hot too. But until a LIST asks for them they are
// not encoded again while the resource changes. The first pass, and later ones while the resource
// does not change, also compress for gzip, which clients in Go ask for in each LIST.
//
// Forms that LISTs have asked for come first, then protobuf. Its first LIST gains most: the header
// of the list states the size of all items, which is found by unpacking them once more.
//
// Once an object is found that an older version stored, all objects of its resource are
// normalized too, once and even beyond the budget (transcode.Normalizer). That is most
// of the cost of their first LIST.

const (
	// warmPeriod is the time between two passes. A pass that finds everything warm costs a
	// walk through the leaves.
	warmPeriod = 5 * time.Second
	// churnPeriod is the time between two passes over a resource that changes all the
	// time. Most of its leaves would change again before a client asks.
	churnPeriod = 30 * time.Second
	// yieldPeriod is how long the warmer waits when requests are being answered.
	yieldPeriod = 20 * time.Millisecond
	// hotPeriod is how long a form stays hot.
	hotPeriod = 10 * time.Minute
	// minWarmObjects is how many objects a resource must have to be warmed. Fewer are
	// encoded quickly enough when a client asks.
	minWarmObjects = 200
)

// hotness says when a LIST without selectors last asked for a form, or was expected to.
type hotness struct {
	// last is in Unix nanoseconds.
	last atomic.Int64
	// requested says that a LIST has asked, so last is not only an expectation.
	requested atomic.Bool
}

// expect makes a form hot for which no LIST has asked yet.
func (h *hotness) expect(now time.Time) { h.last.Store(now.UnixNano()) }

// touch records that a LIST has asked for the form.
func (h *hotness) touch(now time.Time) {
	h.last.Store(now.UnixNano())
	if !h.requested.Load() {
		h.requested.Store(true)
	}
}

// hot reports whether the form is to be warmed.
func (h *hotness) hot(now time.Time) bool { return now.UnixNano()-h.last.Load() < int64(hotPeriod) }

// Warm keeps hot forms encoded until the context ends.
func (t *Tier) Warm(ctx context.Context) {
	ticker := time.NewTicker(warmPeriod)
	defer ticker.Stop()
	states := map[*Route]*warmState{}
	for {
		for _, r := range *t.routes.Load() {
			now, w := time.Now(), states[r]
			if w == nil {
				w = &warmState{}
				states[r] = w
			}
			due, ahead := w.due(r.cfg.Objects.Resource().Snapshot().Revision, now)
			if !due {
				continue
			}
			hot := r.hotForms(now, ahead)
			for _, f := range hot {
				t.warmForm(ctx, r, f.Warm)
			}
			if ahead {
				for _, f := range hot {
					t.warmForm(ctx, r, func(run encode.EntryRun, _ int64) (bool, error) { return f.WarmGzip(run) })
				}
			}
			if !w.normalized && r.normalizer.HasFound() {
				w.normalized = t.normalizeAhead(ctx, r)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// warmState is what Warm remembers of a route between passes.
type warmState struct {
	// revision is that of the resource's snapshot at the last pass.
	revision int64
	// warmed is when a pass last encoded. It is zero before the first pass.
	warmed time.Time
	// normalized says that all objects were normalized once. Later ones were written by a
	// server of this version.
	normalized bool
}

// due reports whether this pass encodes. It does if the resource did not change since the
// last pass, or if the last pass that encoded is churnPeriod ago. revision is the resource's
// newest. ahead reports whether the pass includes forms that no LIST has asked for yet. That
// is so for the first pass, and when nothing has changed.
func (w *warmState) due(revision int64, now time.Time) (due, ahead bool) {
	quiet, first := revision == w.revision, w.warmed.IsZero()
	w.revision = revision
	if !quiet && now.Sub(w.warmed) < churnPeriod {
		return false, false
	}
	w.warmed = now
	return true, quiet || first
}

// hotForms returns the hot forms of lists except tables, in the order in which they are warmed.
// ahead includes forms that no LIST has asked for yet.
func (r *Route) hotForms(now time.Time, ahead bool) []*encode.Form {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var requested, expected []*routeForm
	for _, made := range r.mu.forms {
		if made.form == nil || made.form.IsTable() || !made.hotness.hot(now) {
			continue
		}
		if made.hotness.requested.Load() {
			requested = append(requested, made)
		} else if ahead {
			expected = append(expected, made)
		}
	}
	var hot []*encode.Form
	for _, forms := range [][]*routeForm{requested, expected} {
		slices.SortFunc(forms, func(a, b *routeForm) int { return a.number - b.number })
		for _, made := range forms {
			hot = append(hot, made.form)
		}
	}
	return hot
}

// warmForm calls warm, of one form, for all leaves of a resource. It stops when warm returns
// false or an error, or when the context ends. It does nothing for a resource that is small or
// has opaque objects.
func (t *Tier) warmForm(ctx context.Context, r *Route, warm func(run encode.EntryRun, stored int64) (more bool, err error)) {
	snapshot := r.cfg.Objects.Resource().Snapshot()
	if snapshot.Len() < minWarmObjects || snapshot.Opaque > 0 {
		return
	}
	for run := range snapshot.Runs("") {
		if !t.idle(ctx) {
			return
		}
		t.warming.Store(true)
		more, err := warm(run, snapshot.Bytes)
		t.warming.Store(false)
		if err != nil || !more {
			return // The first request that meets the same error logs it (failureLog).
		}
	}
}

// normalizeAhead finds the normal forms of a resource's objects, of which some were stored by an
// older version. It returns false if the context ended first.
func (t *Tier) normalizeAhead(ctx context.Context, r *Route) bool {
	f := r.normalizingForm()
	if f == nil {
		return true
	}
	for run := range r.cfg.Objects.Resource().Snapshot().Runs("") {
		if !t.idle(ctx) {
			return false
		}
		t.warming.Store(true)
		f.NormalizeAhead(run)
		t.warming.Store(false)
	}
	return true
}

// normalizingForm returns any form that normalizes objects. It returns nil if there is
// none.
func (r *Route) normalizingForm() *encode.Form {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, made := range r.mu.forms {
		if made.form != nil && made.form.CanNormalize() {
			return made.form
		}
	}
	return nil
}

// Warming reports whether Warm is encoding, which no client waits for.
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
