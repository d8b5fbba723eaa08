package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// plan is how much load a workload gets.
type plan struct {
	Concurrency int           `json:"concurrency,omitempty"` // 0: the workload's own
	Duration    time.Duration `json:"durationNanos,omitempty"`
	Requests    int           `json:"requests,omitempty"` // in total; if set, instead of Duration
	Warmup      int           `json:"warmup"`             // requests before measuring; at least 1
	Settle      time.Duration `json:"settleNanos"`        // pause before measuring
	Timeout     time.Duration `json:"timeoutNanos"`       // of one workload
}

// loader runs workloads against one server.
type loader struct {
	target   *target
	meter    *meter // nil: unknown process
	plan     plan
	captures string // directory for first responses
	keep     bool   // the captures are needed later
	log      *progress
}

// run measures one workload. A result comes with the capture of the first
// response.
func (l *loader) run(ctx context.Context, w workload) (result, capture, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", w.name, l.plan.Timeout))
	defer cancel()
	if l.plan.Concurrency > 0 {
		w.concurrency = l.plan.Concurrency
	}
	l.log.step("%s, %d clients", w.name, w.concurrency)
	conns, err := l.target.connect(ctx, w.concurrency)
	if err != nil {
		return result{}, capture{}, err
	}
	defer closeAll(conns)
	first, err := l.warmUp(ctx, conns[0], w)
	if err != nil {
		return result{}, first, err
	}
	if err := sleep(ctx, l.plan.Settle); err != nil {
		return result{}, first, err
	}
	res, err := l.measure(ctx, conns, w, first.bytes)
	if err != nil {
		return result{}, first, err
	}
	res.Items, res.ColdMillis, res.ColdCPUMillis = first.items, millis(first.took), millis(first.cpu)
	res.ContentEncoding = first.ContentEncoding
	return res, first, nil
}

// warmUp captures and validates the first response and sends the rest of the
// warm-up requests.
func (l *loader) warmUp(ctx context.Context, c *conn, w workload) (capture, error) {
	before, err := l.meter.readKnown()
	if err != nil {
		return capture{}, err
	}
	first, err := l.capture(ctx, c, w)
	if err != nil {
		return first, cause(ctx, err)
	}
	after, err := l.meter.readKnown()
	if err != nil {
		return first, err
	}
	first.cpu = after.cpu - before.cpu
	err = first.validate(w, l.captures)
	if !l.keep {
		_ = os.Remove(filepath.Join(l.captures, first.File))
	}
	if err != nil {
		return first, err
	}
	req, err := l.target.newRequest(ctx, w.request)
	if err != nil {
		return first, err
	}
	for range l.plan.Warmup - 1 {
		if _, err := c.fetch(req); err != nil {
			return first, fmt.Errorf("warm up %s: %w", w.name, cause(ctx, err))
		}
	}
	return first, nil
}

// measure sends the measured requests. Requests that have begun when the
// duration is over are finished and counted, so that CPU and requests agree.
func (l *loader) measure(ctx context.Context, conns []*conn, w workload, size int64) (result, error) {
	if l.meter != nil {
		l.meter.resetPeak()
	}
	before, err := l.meter.readKnown()
	if err != nil {
		return result{}, err
	}
	clientBefore, start := clientCPU(), time.Now()
	m := &measurement{loader: l, workload: w, size: size, deadline: start.Add(l.plan.Duration)}
	workers, err := m.run(ctx, conns)
	elapsed := time.Since(start)
	clientUsed := clientCPU() - clientBefore
	if err != nil {
		return result{}, err
	}
	after, err := l.meter.readKnown()
	if err != nil {
		return result{}, err
	}
	res := newResult(w, workers, elapsed)
	res.ClientCPUMillis = millis(clientUsed) / float64(res.Requests)
	if l.meter != nil {
		res.Server = &serverCost{
			CPUMillis: millis(after.cpu-before.cpu) / float64(res.Requests),
			RSSBytes:  after.rss,
			PeakBytes: after.peak,
		}
	}
	return res, nil
}

// measurement is the shared state of the clients of one workload.
type measurement struct {
	loader   *loader
	workload workload
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
func (m *measurement) run(ctx context.Context, conns []*conn) ([]worker, error) {
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

func (m *measurement) work(ctx context.Context, c *conn, own *worker) error {
	req, err := m.loader.target.newRequest(ctx, m.workload.request)
	if err != nil {
		return err
	}
	own.samples = make([]time.Duration, 0, 1<<12)
	for m.another(own) {
		start := time.Now()
		n, err := c.fetch(req)
		if err != nil {
			return fmt.Errorf("run %s: %w", m.workload.name, cause(ctx, err))
		}
		own.samples = append(own.samples, time.Since(start))
		own.bytes += n
		if n < m.size/2 || n > m.size*2 {
			return fmt.Errorf("run %s: a response of %d bytes, where the first had %d", m.workload.name, n, m.size)
		}
	}
	return nil
}

// another reports whether a client shall send one more request. By duration
// every client sends at least one.
func (m *measurement) another(own *worker) bool {
	if total := m.loader.plan.Requests; total > 0 {
		return m.taken.Add(1) <= int64(total)
	}
	return len(own.samples) == 0 || time.Now().Before(m.deadline)
}

// cause prefers the reason why ctx ended to the error that this has caused.
func cause(ctx context.Context, err error) error {
	if reason := context.Cause(ctx); reason != nil {
		return reason
	}
	return err
}

// sleep pauses unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
