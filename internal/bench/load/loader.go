package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

// Plan is how much load a workload gets.
type Plan struct {
	Concurrency int           `json:"concurrency,omitempty"` // 0: the workload's own
	Duration    time.Duration `json:"durationNanos,omitempty"`
	Requests    int           `json:"requests,omitempty"` // in total; if set, instead of Duration
	Warmup      int           `json:"warmup"`             // requests before measuring; at least 1
	Settle      time.Duration `json:"settleNanos"`        // pause before measuring
	Timeout     time.Duration `json:"timeoutNanos"`       // of one workload
}

// Loader runs workloads against one server.
type Loader struct {
	Target   *testbed.Target
	Meter    *testbed.Meter // nil: unknown process
	Plan     Plan
	Captures string // directory for first responses
	Keep     bool   // the captures are needed later
	Log      *testbed.Progress
}

// Run measures one workload. A result comes with the capture of the first
// response.
func (l *Loader) Run(ctx context.Context, w Workload) (Result, Capture, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", w.Name, l.Plan.Timeout))
	defer cancel()
	if l.Plan.Concurrency > 0 {
		w.Concurrency = l.Plan.Concurrency
	}
	l.Log.Step("%s, %d clients", w.Name, w.Concurrency)
	conns, err := l.Target.Connect(ctx, w.Concurrency)
	if err != nil {
		return Result{}, Capture{}, err
	}
	defer testbed.CloseAll(conns)
	first, err := l.WarmUp(ctx, conns[0], w)
	if err != nil {
		return Result{}, first, err
	}
	if err := testbed.Sleep(ctx, l.Plan.Settle); err != nil {
		return Result{}, first, err
	}
	res, err := l.measure(ctx, conns, w, first.Bytes)
	if err != nil {
		return Result{}, first, err
	}
	res.Items, res.ColdMillis, res.ColdCPUMillis = first.items, render.Millis(first.took), render.Millis(first.cpu)
	res.ContentEncoding = first.ContentEncoding
	return res, first, nil
}

// WarmUp captures and validates the first response and sends the rest of the
// warm-up requests.
func (l *Loader) WarmUp(ctx context.Context, c *testbed.Conn, w Workload) (Capture, error) {
	before, err := l.Meter.ReadIfKnown()
	if err != nil {
		return Capture{}, err
	}
	first, err := l.capture(ctx, c, w)
	if err != nil {
		return first, testbed.Cause(ctx, err)
	}
	after, err := l.Meter.ReadIfKnown()
	if err != nil {
		return first, err
	}
	first.cpu = after.CPU - before.CPU
	err = first.validate(w, l.Captures)
	if !l.Keep {
		_ = os.Remove(filepath.Join(l.Captures, first.File))
	}
	if err != nil {
		return first, err
	}
	req, err := l.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return first, err
	}
	for range l.Plan.Warmup - 1 {
		if _, err := c.Fetch(req); err != nil {
			return first, fmt.Errorf("warm up %s: %w", w.Name, testbed.Cause(ctx, err))
		}
	}
	return first, nil
}

// measure sends the measured requests. Requests that have begun when the
// duration is over are finished and counted, so that CPU and requests agree.
func (l *Loader) measure(ctx context.Context, conns []*testbed.Conn, w Workload, size int64) (Result, error) {
	if l.Meter != nil {
		l.Meter.ResetPeak()
	}
	before, err := l.Meter.ReadIfKnown()
	if err != nil {
		return Result{}, err
	}
	clientBefore, start := testbed.ClientCPU(), time.Now()
	m := &measurement{loader: l, workload: w, size: size, deadline: start.Add(l.Plan.Duration)}
	workers, err := m.run(ctx, conns)
	elapsed := time.Since(start)
	clientUsed := testbed.ClientCPU() - clientBefore
	if err != nil {
		return Result{}, err
	}
	after, err := l.Meter.ReadIfKnown()
	if err != nil {
		return Result{}, err
	}
	res := newResult(w, workers, elapsed)
	res.ClientCPUMillis = render.Millis(clientUsed) / float64(res.Requests)
	if l.Meter != nil {
		res.Server = &ServerCost{
			CPUMillis: render.Millis(after.CPU-before.CPU) / float64(res.Requests),
			RSSBytes:  after.RSS,
			PeakBytes: after.Peak,
		}
	}
	return res, nil
}

// measurement is the shared state of the clients of one workload.
type measurement struct {
	loader   *Loader
	workload Workload
	size     int64 // bytes of a validated response
	deadline time.Time
	taken    atomic.Int64 // requests begun, when they are counted
}

// worker is one client's share.
type worker struct {
	samples []time.Duration
	bytes   int64
}

// run ends when all clients have; the first failure ends them all.
func (m *measurement) run(ctx context.Context, conns []*testbed.Conn) ([]worker, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	workers := make([]worker, len(conns))
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() {
			if err := m.work(ctx, c, &workers[i]); err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
	return workers, context.Cause(ctx)
}

func (m *measurement) work(ctx context.Context, c *testbed.Conn, own *worker) error {
	req, err := m.loader.Target.NewRequest(ctx, m.workload.Request)
	if err != nil {
		return err
	}
	own.samples = make([]time.Duration, 0, 1<<12)
	for m.another(own) {
		start := time.Now()
		n, err := c.Fetch(req)
		if err != nil {
			return fmt.Errorf("run %s: %w", m.workload.Name, testbed.Cause(ctx, err))
		}
		own.samples = append(own.samples, time.Since(start))
		own.bytes += n
		if n < m.size/2 || n > m.size*2 {
			return fmt.Errorf("run %s: a response of %d bytes, where the first had %d", m.workload.Name, n, m.size)
		}
	}
	return nil
}

// another reports whether a client shall send one more request. By duration
// every client sends at least one.
func (m *measurement) another(own *worker) bool {
	if total := m.loader.Plan.Requests; total > 0 {
		return m.taken.Add(1) <= int64(total)
	}
	return len(own.samples) == 0 || time.Now().Before(m.deadline)
}
