package list

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// rssResult is the memory of an idle server, before and after it has sent all pods in several
// encodings.
type rssResult struct {
	Rest time.Duration `json:"restNanos"` // before IdleBytes and AfterBytes are read
	// Lists is the number of LISTs of each encoding, which were sent one after another.
	Lists          int      `json:"lists"`
	Encodings      []string `json:"encodings"`
	StartPeakBytes int64    `json:"startPeakBytes"` // from the start of the process to readiness; with --at the RSS at that time
	IdleBytes      int64    `json:"idleBytes"`
	PeakBytes      int64    `json:"peakBytes"` // during the LISTs
	AfterBytes     int64    `json:"afterBytes"`

	Error string `json:"error,omitempty"` // not empty: the numbers are incomplete
}

// runRSS measures the section list-rss.
func (b *bench) runRSS(ctx context.Context, l *load.Loader, s *serverReport) error {
	res := rssResult{Rest: b.opts.rest, Lists: b.opts.rssLists}
	var workloads []load.Workload
	var err error
	for _, name := range []string{"pods-json", "pods-json-gzip", "pods-protobuf", "pods-protobuf-gzip"} {
		var w load.Workload
		if w, err = b.workloadOf(specByName(name)); err != nil {
			break
		}
		res.Encodings = append(res.Encodings, name)
		workloads = append(workloads, w)
	}
	if err == nil {
		err = measureRSS(ctx, l, workloads, &res)
	}
	if err != nil {
		res.Error = err.Error()
	}
	s.RSS = &res
	return b.reportFailure(ctx, err)
}

// measureRSS sends the LISTs, and sets the fields of res that count bytes.
func measureRSS(ctx context.Context, l *load.Loader, workloads []load.Workload, res *rssResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout+2*testbed.MaxRests*res.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", listRSS, l.Plan.Timeout))
	defer cancel()
	ready, err := l.Meter.Read()
	if err != nil {
		return err
	}
	idle, err := l.Meter.AwaitIdleWithProgress(ctx, l.Progress, listRSS, res.Rest)
	if err != nil {
		return err
	}
	_, peak, err := l.Meter.PeakDuring(func() error { return listAll(ctx, l, workloads, res.Lists) })
	if err != nil {
		return err
	}
	after, err := l.Meter.AwaitIdleWithProgress(ctx, l.Progress, listRSS, res.Rest)
	res.StartPeakBytes, res.IdleBytes, res.PeakBytes, res.AfterBytes = ready.Peak, idle.RSS, peak, after.RSS
	return err
}

// listAll sends a number of LISTs of each workload, one after another over one connection. It
// validates the first response of each workload.
func listAll(ctx context.Context, l *load.Loader, workloads []load.Workload, lists int) error {
	conns, err := l.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	defer testbed.CloseAll(conns)
	warmUpLoader := *l
	warmUpLoader.Plan.Warmup = lists
	warmUpLoader.KeepCaptures = false
	for _, w := range workloads {
		l.Progress.Step("%s, %d of %s", listRSS, lists, w.Name)
		w.Name = listRSS
		if _, err := warmUpLoader.WarmUp(ctx, conns[0], w); err != nil {
			return err
		}
	}
	return nil
}
