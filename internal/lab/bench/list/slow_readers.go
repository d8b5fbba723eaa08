package list

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// slowReadersClients is the default number of clients. Every second client is slow.
	slowReadersClients = 64
	// slowReadersBytes is the number of bytes that a slow reader reads between two pauses.
	slowReadersBytes = 256 << 10
	// bodySizeTolerance is the number of bytes by which two bodies of the same LIST may differ:
	// their resource versions may differ in length.
	bodySizeTolerance = 64
)

// slowReadersResult is the cost of LISTs that are sent at the same time. Half of them are read slowly.
type slowReadersResult struct {
	Clients     int            `json:"clients"`
	Stall       time.Duration  `json:"stallNanos"` // over which a slow reader spreads a body
	BodyBytes   int64          `json:"bodyBytes"`
	Rest        time.Duration  `json:"restNanos"`   // before IdleBytes is read
	IdleBytes   int64          `json:"idleBytes"`   // RSS before any LIST
	BeforeBytes int64          `json:"beforeBytes"` // RSS after one LIST
	PeakBytes   int64          `json:"peakBytes"`
	Fast        readerOutcomes `json:"fast"`
	Slow        readerOutcomes `json:"slow"`
	// FirstFailure is the error of one incomplete LIST, of a fast client if there is one.
	FirstFailure string `json:"firstFailure,omitempty"`

	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// readerOutcomes counts how the LISTs of the fast or the slow clients ended.
type readerOutcomes struct {
	Complete int     `json:"whole"`
	Failed   int     `json:"cutOff"`  // any other error
	Refused  int     `json:"refused"` // answered with another status than 200
	Seconds  float64 `json:"seconds"` // median of the complete LISTs
}

// outcome is how one LIST ended. err is nil if the LIST was complete.
type outcome struct {
	slow bool
	took time.Duration
	err  error
}

// runSlowReaders measures the section list-stalled.
func (b *bench) runSlowReaders(ctx context.Context, l *load.Loader, s *serverReport) error {
	res := slowReadersResult{Clients: slowReadersClients, Stall: b.opts.stall, Rest: b.opts.rest}
	if b.opts.plan.Concurrency > 0 {
		res.Clients = b.opts.plan.Concurrency
	}
	b.progress.Step("%s, %d clients", listSlowReaders, res.Clients)
	w, err := b.workloadOf(workloadSpec{name: listSlowReaders, path: "/api/v1/secrets", accept: testbed.AcceptJSON, body: load.JSONList})
	if err == nil {
		w.Name = listSlowReaders
		err = measureSlowReaders(ctx, l, w, &res)
	}
	if err != nil {
		res.Error = err.Error()
	}
	s.SlowReaders = &res
	return b.reportFailure(ctx, err)
}

// measureSlowReaders sends one LIST, and then all LISTs at once. It sets the results in res.
func measureSlowReaders(ctx context.Context, l *load.Loader, w load.Workload, res *slowReadersResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout+testbed.MaxRests*res.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", listSlowReaders, l.Plan.Timeout))
	defer cancel()
	idle, err := l.Meter.AwaitIdleWithProgress(ctx, l.Progress, listSlowReaders, res.Rest)
	if err != nil {
		return err
	}
	conns, err := l.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	defer testbed.CloseAll(conns)
	warmUpLoader := *l
	warmUpLoader.Plan.Warmup = 1
	warmUpLoader.KeepCaptures = false
	first, err := warmUpLoader.WarmUp(ctx, conns[0], w)
	if err != nil {
		return err
	}
	if err := testbed.Sleep(ctx, l.Plan.Settle); err != nil {
		return err
	}
	run := &slowReadersRun{loader: l, workload: w, size: first.Bytes, stall: res.Stall}
	var outcomes []outcome
	before, peak, err := l.Meter.PeakDuring(func() error {
		outcomes = run.sendAll(ctx, res.Clients)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	res.BodyBytes, res.IdleBytes, res.BeforeBytes, res.PeakBytes = first.Bytes, idle.RSS, before, peak
	res.count(outcomes)
	return nil
}

// count sets Fast, Slow and FirstFailure from the outcomes.
func (res *slowReadersResult) count(outcomes []outcome) {
	for _, slow := range []bool{false, true} {
		var r readerOutcomes
		var took []time.Duration
		for _, o := range outcomes {
			switch status := (*testbed.StatusError)(nil); {
			case o.slow != slow:
				continue
			case o.err == nil:
				r.Complete++
				took = append(took, o.took)
			case errors.As(o.err, &status):
				r.Refused++
			default:
				r.Failed++
			}
			if o.err != nil && res.FirstFailure == "" {
				res.FirstFailure = o.err.Error()
			}
		}
		if len(took) > 0 {
			slices.Sort(took)
			r.Seconds = took[len(took)/2].Seconds()
		}
		if slow {
			res.Slow = r
		} else {
			res.Fast = r
		}
	}
}

// slowReadersRun sends LISTs at the same time, and reads each to its end.
type slowReadersRun struct {
	loader   *load.Loader
	workload load.Workload
	size     int64         // of a complete body
	stall    time.Duration // over which a slow reader spreads a body
}

// sendAll runs all clients, and returns their outcomes when all clients have ended.
func (r *slowReadersRun) sendAll(ctx context.Context, clients int) []outcome {
	outcomes := make([]outcome, clients)
	var group sync.WaitGroup
	for i := range outcomes {
		group.Go(func() {
			o, start := &outcomes[i], time.Now()
			o.slow = i%2 == 1
			o.err = r.read(ctx, o.slow)
			o.took = time.Since(start)
		})
	}
	group.Wait()
	return outcomes
}

// read sends one LIST and reads it. A slow reader spreads a complete body over stall. The error
// says why the LIST is incomplete.
func (r *slowReadersRun) read(ctx context.Context, slow bool) error {
	window := 0
	if slow {
		window = testbed.SlowWindow
	}
	c, err := r.loader.Target.Dial(window)
	if err != nil {
		return err
	}
	defer c.Close()
	req, err := r.loader.Target.NewRequest(ctx, r.workload.Request)
	if err != nil {
		return err
	}
	resp, err := c.Send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	start := time.Now()
	var total int64
	for {
		n, err := io.ReadFull(resp.Body, c.Buffer[:slowReadersBytes])
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return r.checkSize(total)
		case err != nil:
			return fmt.Errorf("read body after %d bytes and %s: %w", total, time.Since(start).Round(time.Millisecond), err)
		}
		if slow {
			due := time.Duration(float64(r.stall) * float64(total) / float64(r.size))
			if err := testbed.Sleep(ctx, time.Until(start.Add(due))); err != nil {
				return err
			}
		}
	}
}

// checkSize returns an error if the size of a body differs from the first one by more than
// bodySizeTolerance.
func (r *slowReadersRun) checkSize(total int64) error {
	if total < r.size-bodySizeTolerance || total > r.size+bodySizeTolerance {
		return fmt.Errorf("the body ended after %d bytes, where the first body had %d", total, r.size)
	}
	return nil
}
