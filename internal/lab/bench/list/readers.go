package list

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// readersResult is the cost of LISTs that many clients send at once to a server that was just
// started.
type readersResult struct {
	Workload string `json:"workload"`
	// Complete is the number of LISTs that arrived completely. Servers cut off LISTs that take
	// longer than they allow.
	Complete    int     `json:"whole"`
	BodyBytes   int64   `json:"bodyBytes"`
	BeforeBytes int64   `json:"beforeBytes"` // RSS before the LISTs, with the clients' connections
	PeakBytes   int64   `json:"peakBytes"`   // RSS during the LISTs
	AfterBytes  int64   `json:"afterBytes"`  // RSS once the server was idle again
	CPUMillis   float64 `json:"cpuMillis"`   // of the server, for all LISTs
	Seconds     float64 `json:"seconds"`     // until the last LIST ended

	// FirstFailure is the error of one incomplete LIST.
	FirstFailure string `json:"firstFailure,omitempty"`

	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// measureReaders measures a workload of --cold-readers on a server that was just started. It
// does not wait until the server is idle, because real clients do not wait until a server has
// collected the garbage of its start.
func (c *comparisonRun) measureReaders(ctx context.Context, l *load.Loader, s *serverReport, spec workloadSpec) error {
	w, err := c.workloadOf(spec)
	if err != nil {
		return err
	}
	c.progress.Step("%s, %d clients at once", w.Name, c.opts.coldReaders)
	res, err := listAtOnce(ctx, l, w, c.opts.coldReaders)
	if err != nil {
		res = readersResult{Error: err.Error()}
	}
	res.Workload = w.Name
	s.Readers = append(s.Readers, res)
	return c.reportFailure(ctx, err)
}

// listAtOnce sends one LIST over each of a number of connections, at the same time.
func listAtOnce(ctx context.Context, l *load.Loader, w load.Workload, clients int) (res readersResult, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", w.Name, l.Plan.Timeout))
	defer cancel()
	conns, err := l.Target.Connect(ctx, clients)
	if err != nil {
		return res, err
	}
	defer testbed.CloseAll(conns)
	before, err := l.Meter.Read()
	if err != nil {
		return res, err
	}
	start := time.Now()
	res.BeforeBytes, res.PeakBytes, err = l.Meter.PeakDuring(func() error { return res.fetchAll(ctx, l, w, conns) })
	if err != nil {
		return res, err
	}
	res.Seconds = time.Since(start).Seconds()
	after, err := l.Meter.Read()
	if err != nil {
		return res, err
	}
	res.CPUMillis = render.Millis(after.CPU - before.CPU)
	after, err = l.Meter.AwaitIdleWithProgress(ctx, l.Progress, w.Name, coldIdleTime)
	res.AfterBytes = after.RSS
	return res, err
}

// fetchAll sends one LIST over each connection, and sets Complete, BodyBytes and FirstFailure.
// It validates the first body. The other bodies must have the same size.
func (res *readersResult) fetchAll(ctx context.Context, l *load.Loader, w load.Workload, conns []*testbed.Conn) error {
	sizes, failures := make([]int64, len(conns)), make([]error, len(conns))
	var group sync.WaitGroup
	for i, conn := range conns {
		group.Go(func() { sizes[i], failures[i] = fetchOne(ctx, l, w, conn, i == 0) })
	}
	group.Wait()
	for i, size := range sizes {
		err := failures[i]
		switch {
		case err != nil:
		case res.Complete > 0 && (size < res.BodyBytes-bodySizeTolerance || size > res.BodyBytes+bodySizeTolerance):
			err = fmt.Errorf("run %s: a body of %d bytes, where another body had %d", w.Name, size, res.BodyBytes)
		default:
			res.Complete++
			res.BodyBytes = size
		}
		if err != nil && res.FirstFailure == "" {
			res.FirstFailure = err.Error()
		}
	}
	return context.Cause(ctx)
}

// fetchOne sends one LIST and returns the size of its body. If validate is set, it also decodes
// the body.
func fetchOne(ctx context.Context, l *load.Loader, w load.Workload, conn *testbed.Conn, validate bool) (int64, error) {
	if validate {
		first, err := l.WarmUp(ctx, conn, w)
		return first.Bytes, err
	}
	req, err := l.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return 0, err
	}
	size, err := conn.Fetch(req)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", w.Name, testbed.Cause(ctx, err))
	}
	return size, nil
}

// readersTable returns a table with a row for each workload and server of --cold-readers.
func (r *report) readersTable() render.TitledTable {
	type result struct {
		server string
		*readersResult
	}
	var results []result
	for i := 0; len(r.Servers) > 0 && i < len(r.Servers[0].Readers); i++ {
		for _, s := range r.Servers {
			if i < len(s.Readers) && s.Readers[i].Error == "" {
				results = append(results, result{s.Name, &s.Readers[i]})
			}
		}
	}
	var fields render.Fields[result]
	fields.Add("workload", func(r result) string { return r.Workload })
	fields.Add("server", func(r result) string { return r.server })
	fields.Add("complete", func(r result) string { return fmt.Sprint(r.Complete) })
	fields.Add("body", func(r result) string { return render.FormatBytes(r.BodyBytes) })
	fields.Add("RSS ready", func(r result) string { return render.FormatBytes(r.BeforeBytes) })
	fields.Add("peak", func(r result) string { return render.FormatBytes(r.PeakBytes) })
	fields.Add("above ready", func(r result) string { return render.FormatBytes(r.PeakBytes - r.BeforeBytes) })
	fields.Add("RSS after", func(r result) string { return render.FormatBytes(r.AfterBytes) })
	fields.Add("CPU s", func(r result) string { return render.FormatNumber(r.CPUMillis / 1000) })
	fields.Add("s", func(r result) string { return render.FormatNumber(r.Seconds) })
	return render.TitledTable{
		Title: fmt.Sprintf("%d clients that LIST at once, as soon as a server is ready; CPU and seconds are for all LISTs", r.ColdReaders),
		Table: *fields.Table(results),
	}
}
