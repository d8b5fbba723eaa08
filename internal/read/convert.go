package read

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// Converter has a webhook convert objects, so that decoding them does not wait for it.
type Converter interface {
	// Convert returns when objects are converted. The error is that of decoding one, or
	// of a request that took too long.
	Convert(context.Context, []*resource.Entry) error
	// Converted reports whether decoding none of them waits.
	Converted([]*resource.Entry) bool
}

// convert has a webhook convert what is not yet encoded of some spans. It is done before
// the first byte of an answer and with no lock held: an error has to be answered, and
// whoever needs the same groups has a deadline of his own.
func (q *query) convert(req *http.Request, spans iter.Seq[encode.Span]) error {
	c := q.route.cfg.Converter
	if c == nil {
		return nil
	}
	var missing []*resource.Entry
	for span := range spans {
		missing = q.form.AppendMissing(missing, span)
	}
	if len(missing) == 0 {
		return nil
	}
	began := time.Now()
	err := c.Convert(req.Context(), missing)
	q.account.addIdle(began)
	return err
}

// convertInitial has a webhook convert what a watch begins with that is passed on: the
// handler's time for the watch runs from its first object on. An error is the handler's.
func (q *query) convertInitial(req *http.Request, begin *cache.StartPoint) {
	if begin.Initial == nil {
		return
	}
	found := begin.Initial.Select(&cache.Query{Prefix: begin.Scope.Prefix, Single: begin.Scope.Single})
	var initial []*resource.Entry
	for span := range found.Spans {
		initial = append(initial, span.Entries[span.From:span.To]...)
	}
	_ = q.route.cfg.Converter.Convert(req.Context(), initial)
}

// liveConversion is one batch of a watch's changes on its way through a webhook.
type liveConversion struct {
	done atomic.Bool
	// err is written before done.
	err error
}

// converted reports whether what is pending can be encoded now. Otherwise it is being
// converted by a goroutine of its own, which wakes the watch: a worker waits for no
// webhook. A conversion that fails is why the watch ends.
func (p *watchSource) converted() bool {
	c := p.query.route.cfg.Converter
	if c == nil || p.ready {
		return true
	}
	if live := p.conversion; live != nil {
		if !live.done.Load() {
			return false
		}
		p.conversion, p.err = nil, live.err
		p.ready = p.err == nil
		return p.ready
	}
	var missing []*resource.Entry
	for i := range p.pending {
		if change := &p.pending[i]; !p.query.form.HasFrame(change) {
			missing = append(missing, change.Entry)
		}
	}
	if p.ready = c.Converted(missing); p.ready {
		return true
	}
	live := &liveConversion{}
	p.conversion = live
	go func() {
		live.err = c.Convert(p.req.Context(), missing)
		live.done.Store(true)
		p.wake.notify()
	}()
	return false
}
