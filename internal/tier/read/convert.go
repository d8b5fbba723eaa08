package read

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Converter lets a webhook convert objects ahead, so that decoding them does not wait for
// the webhook.
type Converter interface {
	// Convert returns when all entries are converted. Its error is what decoding one of
	// them would return, or that the context has ended.
	Convert(context.Context, []*entry.Entry) error
	// Converted reports whether no entry has to wait for the webhook when it is decoded.
	Converted([]*entry.Entry) bool
}

// convert lets a webhook convert the entries of runs that are not encoded yet. It runs
// before the first byte of an answer, because an error must still be answered. It holds no
// lock, because other requests for the same groups have deadlines of their own.
func (q *query) convert(ctx context.Context, runs iter.Seq[encode.EntryRun]) error {
	c := q.route.cfg.Converter
	if c == nil {
		return nil
	}
	var missing []*entry.Entry
	for run := range runs {
		missing = q.form.AppendMissing(missing, run)
	}
	if len(missing) == 0 {
		return nil
	}
	return c.Convert(ctx, missing)
}

// convertInitial lets a webhook convert the first objects of a watch that is passed on.
// The handler's time for the watch runs from its first object on, so the wait is done
// before. An error is dropped, because the handler meets it again.
func (q *query) convertInitial(req *http.Request, begin *cache.StartPoint) {
	if begin.Initial == nil {
		return
	}
	found := begin.Initial.Select(&cache.Query{Prefix: begin.Scope.Prefix, Single: begin.Scope.Single})
	var initial []*entry.Entry
	for run := range found.Runs {
		initial = append(initial, run.Entries[run.From:run.To]...)
	}
	_ = q.route.cfg.Converter.Convert(req.Context(), initial)
}

// liveConversion is a batch of a watch's changes that a webhook is converting.
type liveConversion struct {
	done atomic.Bool
	// err is written before done is set, and read after.
	err error
}

// awaitConversion reports whether the changes can be encoded now. If not, a goroutine
// converts them and then wakes the watch: the connection's worker must not wait for a
// webhook. A conversion that fails ends the watch, by p.err.
func (p *watchSource) awaitConversion() bool {
	c := p.query.route.cfg.Converter
	if c == nil || p.converted {
		return true
	}
	if live := p.conversion; live != nil {
		if !live.done.Load() {
			return false
		}
		p.conversion, p.err = nil, live.err
		p.converted = p.err == nil
		return p.converted
	}
	var missing []*entry.Entry
	for i := range p.changes {
		if change := &p.changes[i]; !p.query.form.HasFrame(change) {
			missing = append(missing, change.Entry)
		}
	}
	if p.converted = c.Converted(missing); p.converted {
		return true
	}
	live := &liveConversion{}
	p.conversion = live
	go func() {
		live.err = p.query.route.cfg.Shared.Panics.Guard(panics.Convert, func() error { return c.Convert(p.req.Context(), missing) })
		if p.req.Context().Err() != nil {
			live.err = errWatchEnded // its time was over before the webhook had answered
		}
		live.done.Store(true)
		p.wake.notify()
	}()
	return false
}
