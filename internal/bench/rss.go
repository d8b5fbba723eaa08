package bench

import (
	"context"
	"fmt"
	"time"
)

// rssResult is what a server occupies when nobody asks for anything, before and
// after it has sent everything it has.
type rssResult struct {
	Rest time.Duration `json:"restNanos"` // before idle and before after are read
	// Lists were sent of each of the Encodings, one after another.
	Lists          int      `json:"lists"`
	Encodings      []string `json:"encodings"`
	StartPeakBytes int64    `json:"startPeakBytes"` // from the start on, until ready
	IdleBytes      int64    `json:"idleBytes"`
	PeakBytes      int64    `json:"peakBytes"` // during the LISTs
	AfterBytes     int64    `json:"afterBytes"`

	Error string `json:"error,omitempty"` // if set, nothing was measured
}

// rss is the section list-rss.
func (b *listBench) rss(ctx context.Context, l *loader, s *serverReport) error {
	res := rssResult{Rest: b.opts.rest, Lists: b.opts.rssLists}
	var workloads []workload
	var err error
	for _, name := range []string{"pods-json", "pods-json-gzip", "pods-protobuf", "pods-protobuf-gzip"} {
		var w workload
		if w, err = b.completed(specNamed(name)); err != nil {
			break
		}
		res.Encodings, workloads = append(res.Encodings, name), append(workloads, w)
	}
	if err == nil {
		err = measureRSS(ctx, l, workloads, &res)
	}
	if err != nil {
		res.Error = err.Error()
	}
	s.RSS = &res
	return b.concluded(ctx, err)
}

// measureRSS fills in the bytes. It needs a meter.
func measureRSS(ctx context.Context, l *loader, workloads []workload, res *rssResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.plan.Timeout+2*mostRests*res.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", listRSS, l.plan.Timeout))
	defer cancel()
	ready, err := l.meter.read()
	if err != nil {
		return err
	}
	idle, err := l.meter.rested(ctx, l.log, listRSS, res.Rest)
	if err != nil {
		return err
	}
	_, peak, err := l.meter.peakDuring(func() error { return listAll(ctx, l, workloads, res.Lists) })
	if err != nil {
		return err
	}
	after, err := l.meter.rested(ctx, l.log, listRSS, res.Rest)
	res.StartPeakBytes, res.IdleBytes, res.PeakBytes, res.AfterBytes = ready.peak, idle.rss, peak, after.rss
	return err
}

// listAll sends requests of each workload one after another. The first of each
// is validated.
func listAll(ctx context.Context, l *loader, workloads []workload, lists int) error {
	conns, err := l.target.connect(ctx, 1)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	own := *l
	own.plan.Warmup, own.keep = lists, false
	for _, w := range workloads {
		l.log.step("%s, %d of %s", listRSS, lists, w.name)
		w.name = listRSS
		if _, err := own.warmUp(ctx, conns[0], w); err != nil {
			return err
		}
	}
	return nil
}
