package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// Plan says how much load a workload gets.
type Plan struct {
	Concurrency int           `json:"concurrency,omitempty"` // clients; 0: the workload's own number
	Duration    time.Duration `json:"durationNanos,omitempty"`
	Requests    int           `json:"requests,omitempty"` // of all clients; replaces Duration if set
	// Every is the time between the starts of a client's requests. 0: each request follows
	// the one before. Clients start one after the other within Every.
	Every   time.Duration `json:"everyNanos,omitempty"`
	Warmup  int           `json:"warmup"`       // requests before measuring; at least 1
	Settle  time.Duration `json:"settleNanos"`  // pause before measuring
	Timeout time.Duration `json:"timeoutNanos"` // for a whole workload
}

// Loader runs workloads against one server.
type Loader struct {
	Target       *testbed.Target
	Meter        *testbed.Meter
	Plan         Plan
	CaptureDir   string // where first responses are stored
	KeepCaptures bool   // captures stay after they are validated
	Progress     *testbed.Progress
}

// Run measures one workload. It also returns the capture of the first response. The error names
// the workload if Plan.Timeout has passed.
func (l *Loader) Run(ctx context.Context, w Workload) (Result, Capture, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", w.Name, l.Plan.Timeout))
	defer cancel()
	if l.Plan.Concurrency > 0 {
		w.Concurrency = l.Plan.Concurrency
	}
	l.Progress.Step("%s, %d clients", w.Name, w.Concurrency)
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
	res.ContentEncoding, res.Refused = first.ContentEncoding, first.refused
	return res, first, nil
}

// WarmUp captures and validates the first response, and sends the remaining warm-up requests. It
// removes the file of the capture, unless KeepCaptures is set.
func (l *Loader) WarmUp(ctx context.Context, c *testbed.Conn, w Workload) (Capture, error) {
	before, err := l.Meter.Read()
	if err != nil {
		return Capture{}, err
	}
	first, err := l.captureWithRetry(ctx, c, w)
	if err != nil {
		return first, testbed.Cause(ctx, err)
	}
	after, err := l.Meter.Read()
	if err != nil {
		return first, err
	}
	first.cpu = after.CPU - before.CPU
	err = first.validate(w, l.CaptureDir)
	if !l.KeepCaptures {
		_ = os.Remove(filepath.Join(l.CaptureDir, first.Name))
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

// captureWithRetry captures the first response. After a 429 with a Retry-After it tries again,
// as client-go does. A server that has just started may have no storage of a definition yet.
func (l *Loader) captureWithRetry(ctx context.Context, c *testbed.Conn, w Workload) (first Capture, _ error) {
	refused, err := testbed.RetryRefused(ctx, func() (err error) {
		first, err = l.capture(ctx, c, w)
		return err
	})
	first.refused = refused
	return first, err
}

// measure sends the measured requests. Requests that are in flight at the end of the duration are
// finished and counted, so that the CPU belongs to exactly the counted requests. size is the size of
// the first response in bytes.
func (l *Loader) measure(ctx context.Context, conns []*testbed.Conn, w Workload, size int64) (Result, error) {
	l.Meter.ResetPeak()
	before, err := l.Meter.Read()
	if err != nil {
		return Result{}, err
	}
	clientBefore, start := testbed.ClientCPU(), time.Now()
	m := &measurement{loader: l, workload: w, size: size, deadline: start.Add(l.Plan.Duration)}
	clients, err := m.run(ctx, conns)
	elapsed := time.Since(start)
	clientCPU := testbed.ClientCPU() - clientBefore
	if err != nil {
		return Result{}, err
	}
	after, err := l.Meter.Read()
	if err != nil {
		return Result{}, err
	}
	res := newResult(w, clients, elapsed)
	res.ClientCPUMillis = render.Millis(clientCPU) / float64(res.Requests)
	res.Server = &ServerCost{
		CPUMillis: render.Millis(after.CPU-before.CPU) / float64(res.Requests),
		RSSBytes:  after.RSS,
		PeakBytes: after.Peak,
	}
	return res, nil
}

// measurement is the state that the clients of one workload share. All fields but
// startedRequests are constant.
type measurement struct {
	loader          *Loader
	workload        Workload
	size            int64        // of the first response, which is valid
	deadline        time.Time    // used if Plan.Requests is 0
	startedRequests atomic.Int64 // used if Plan.Requests is set
}

// clientSamples is what one client measured.
type clientSamples struct {
	samples []time.Duration
	bytes   int64
}

// run runs all clients, and returns what each measured when all have ended. The first error ends
// them.
func (m *measurement) run(ctx context.Context, conns []*testbed.Conn) ([]clientSamples, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	clients, start := make([]clientSamples, len(conns)), time.Now()
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() {
			begin := start.Add(m.loader.Plan.Every * time.Duration(i) / time.Duration(len(conns)))
			if err := m.work(ctx, c, begin, &clients[i]); err != nil {
				fail(err)
			}
		})
	}
	group.Wait()
	return clients, context.Cause(ctx)
}

// work sends the requests of one client, the first request at begin. It adds the measured times to
// client, which no other goroutine uses.
func (m *measurement) work(ctx context.Context, c *testbed.Conn, begin time.Time, client *clientSamples) error {
	req, err := m.loader.Target.NewRequest(ctx, m.workload.Request)
	if err != nil {
		return err
	}
	client.samples = make([]time.Duration, 0, 1<<12)
	for next := begin; ; next = next.Add(m.loader.Plan.Every) {
		if m.loader.Plan.Every > 0 {
			if err := testbed.Sleep(ctx, time.Until(next)); err != nil {
				return err
			}
		}
		if !m.wantsMore(client) {
			return nil
		}
		start := time.Now()
		n, err := c.Fetch(req)
		if err != nil {
			return fmt.Errorf("run %s: %w", m.workload.Name, testbed.Cause(ctx, err))
		}
		client.samples = append(client.samples, time.Since(start))
		client.bytes += n
		if n < m.size/2 || n > m.size*2 {
			return fmt.Errorf("run %s: a response of %d bytes, where the first response had %d", m.workload.Name, n, m.size)
		}
	}
}

// wantsMore reports whether a client is to send another request. If the plan is a
// duration, every client sends at least one request.
func (m *measurement) wantsMore(client *clientSamples) bool {
	if total := m.loader.Plan.Requests; total > 0 {
		return m.startedRequests.Add(1) <= int64(total)
	}
	return len(client.samples) == 0 || time.Now().Before(m.deadline)
}
