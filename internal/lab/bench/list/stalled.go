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
	// stalledClients is the default number of clients. Every second one is slow.
	stalledClients = 64
	// stalledRead is how many bytes a slow reader reads between two pauses.
	stalledRead = 256 << 10
	// stalledSlack is how much two bodies of the same LIST may differ in size: their
	// resource versions may differ in length.
	stalledSlack = 64
)

// stalledResult is what LISTs cost a server if all are sent at once and half of them are
// read slowly.
type stalledResult struct {
	Clients     int            `json:"clients"`
	Stall       time.Duration  `json:"stallNanos"` // least time of a slow reader
	BodyBytes   int64          `json:"bodyBytes"`
	Rest        time.Duration  `json:"restNanos"`   // before IdleBytes is read
	IdleBytes   int64          `json:"idleBytes"`   // RSS before any LIST
	BeforeBytes int64          `json:"beforeBytes"` // RSS after one LIST
	PeakBytes   int64          `json:"peakBytes"`
	Fast        readerOutcomes `json:"fast"`
	Slow        readerOutcomes `json:"slow"`
	// FirstFailure is the error of the first client whose LIST was not whole.
	FirstFailure string `json:"firstFailure,omitempty"`

	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// readerOutcomes counts how the LISTs of the fast or the slow clients ended.
type readerOutcomes struct {
	Whole   int     `json:"whole"`
	CutOff  int     `json:"cutOff"`
	Refused int     `json:"refused"` // without a 200
	Seconds float64 `json:"seconds"` // median of the whole LISTs
}

// outcome is how one LIST ended. err is nil if it was whole.
type outcome struct {
	slow bool
	took time.Duration
	err  error
}

// stalled measures the section list-stalled.
func (b *bench) stalled(ctx context.Context, l *load.Loader, s *serverReport) error {
	res := stalledResult{Clients: stalledClients, Stall: b.opts.stall, Rest: b.opts.rest}
	if b.opts.plan.Concurrency > 0 {
		res.Clients = b.opts.plan.Concurrency
	}
	b.log.Step("%s, %d clients", listStalled, res.Clients)
	w, err := b.workloadOf(spec{name: listStalled, path: "/api/v1/secrets", accept: testbed.AcceptJSON, body: load.JSONList})
	if err == nil {
		w.Name = listStalled
		err = measureStalled(ctx, l, w, &res)
	}
	if err != nil {
		res.Error = err.Error()
	}
	s.Stalled = &res
	return b.sectionError(ctx, err)
}

// measureStalled sets the result in res.
func measureStalled(ctx context.Context, l *load.Loader, w load.Workload, res *stalledResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout+testbed.MaxRests*res.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", listStalled, l.Plan.Timeout))
	defer cancel()
	idle, err := l.Meter.AwaitIdleLogged(ctx, l.Log, listStalled, res.Rest)
	if err != nil {
		return err
	}
	conns, err := l.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	defer testbed.CloseAll(conns)
	warmUpLoader := *l
	warmUpLoader.Plan.Warmup, warmUpLoader.KeepCaptures = 1, false
	first, err := warmUpLoader.WarmUp(ctx, conns[0], w)
	if err != nil {
		return err
	}
	if err := testbed.Sleep(ctx, l.Plan.Settle); err != nil {
		return err
	}
	run := &stalledRun{loader: l, workload: w, size: first.Bytes, stall: res.Stall}
	var outcomes []outcome
	before, peak, err := l.Meter.PeakDuring(func() error {
		outcomes = run.run(ctx, res.Clients)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	res.BodyBytes, res.IdleBytes, res.BeforeBytes, res.PeakBytes = first.Bytes, idle.RSS, before, peak
	res.count(outcomes)
	return nil
}

// count sets Fast, Slow and FirstFailure.
func (res *stalledResult) count(outcomes []outcome) {
	for _, slow := range []bool{false, true} {
		var r readerOutcomes
		var took []time.Duration
		for _, o := range outcomes {
			switch status := (*testbed.StatusError)(nil); {
			case o.slow != slow:
				continue
			case o.err == nil:
				r.Whole++
				took = append(took, o.took)
			case errors.As(o.err, &status):
				r.Refused++
			default:
				r.CutOff++
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

// stalledRun sends LISTs all at once and reads each to its end.
type stalledRun struct {
	loader   *load.Loader
	workload load.Workload
	size     int64 // of a whole body
	stall    time.Duration
}

func (r *stalledRun) run(ctx context.Context, clients int) []outcome {
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

// read sends one LIST and reads it. A slow reader reads at a rate at which a whole body
// takes the time of stall.
func (r *stalledRun) read(ctx context.Context, slow bool) error {
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
	start, total := time.Now(), int64(0)
	for {
		n, err := io.ReadFull(resp.Body, c.Buffer[:stalledRead])
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

// checkSize returns an error if a body that has ended is not whole.
func (r *stalledRun) checkSize(total int64) error {
	if total < r.size-stalledSlack || total > r.size+stalledSlack {
		return fmt.Errorf("the body ended after %d bytes, where the first had %d", total, r.size)
	}
	return nil
}
