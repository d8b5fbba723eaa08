package list

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/bench/load"
	"github.com/millrace/millrace/internal/bench/testbed"
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
func (b *bench) rss(ctx context.Context, l *load.Loader, s *serverReport) error {
	res := rssResult{Rest: b.opts.rest, Lists: b.opts.rssLists}
	var workloads []load.Workload
	var err error
	for _, name := range []string{"pods-json", "pods-json-gzip", "pods-protobuf", "pods-protobuf-gzip"} {
		var w load.Workload
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
func measureRSS(ctx context.Context, l *load.Loader, workloads []load.Workload, res *rssResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout+2*testbed.MaxRests*res.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", listRSS, l.Plan.Timeout))
	defer cancel()
	ready, err := l.Meter.Read()
	if err != nil {
		return err
	}
	idle, err := l.Meter.AwaitIdleLogged(ctx, l.Log, listRSS, res.Rest)
	if err != nil {
		return err
	}
	_, peak, err := l.Meter.PeakDuring(func() error { return listAll(ctx, l, workloads, res.Lists) })
	if err != nil {
		return err
	}
	after, err := l.Meter.AwaitIdleLogged(ctx, l.Log, listRSS, res.Rest)
	res.StartPeakBytes, res.IdleBytes, res.PeakBytes, res.AfterBytes = ready.Peak, idle.RSS, peak, after.RSS
	return err
}

// listAll sends requests of each workload one after another. The first of each
// is validated.
func listAll(ctx context.Context, l *load.Loader, workloads []load.Workload, lists int) error {
	conns, err := l.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	defer testbed.CloseAll(conns)
	own := *l
	own.Plan.Warmup, own.Keep = lists, false
	for _, w := range workloads {
		l.Log.Step("%s, %d of %s", listRSS, lists, w.Name)
		w.Name = listRSS
		if _, err := own.WarmUp(ctx, conns[0], w); err != nil {
			return err
		}
	}
	return nil
}
