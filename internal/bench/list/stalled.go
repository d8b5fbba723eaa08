package list

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/bench/load"
	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// stalledClients is the default number of them; every second one is slow.
	stalledClients = 64
	// stalledRead is what a slow reader takes before each pause.
	stalledRead = 256 << 10
	// stalledSlack is how much two bodies of one list may differ in size: their
	// resource versions may not be of equal length.
	stalledSlack = 64
)

// stalledResult is what LISTs cost a server that are all sent at once and half
// of which are read slowly.
type stalledResult struct {
	Clients     int           `json:"clients"`
	Stall       time.Duration `json:"stallNanos"` // a slow reader takes at least
	BodyBytes   int64         `json:"bodyBytes"`
	Rest        time.Duration `json:"restNanos"`   // before idle is read
	IdleBytes   int64         `json:"idleBytes"`   // RSS before any LIST
	BeforeBytes int64         `json:"beforeBytes"` // RSS after one
	PeakBytes   int64         `json:"peakBytes"`
	Fast        readers       `json:"fast"`
	Slow        readers       `json:"slow"`
	// FirstFailure is one of those that were not whole.
	FirstFailure string `json:"firstFailure,omitempty"`

	Error string `json:"error,omitempty"` // if set, nothing was measured
}

// readers says how the LISTs of one kind of clients ended.
type readers struct {
	Whole   int     `json:"whole"`
	CutOff  int     `json:"cutOff"`
	Refused int     `json:"refused"` // without a 200
	Seconds float64 `json:"seconds"` // median of the whole ones
}

// outcome is how one LIST ended; err is nil when it was whole.
type outcome struct {
	slow bool
	took time.Duration
	err  error
}

// stalled is the section list-stalled.
func (b *bench) stalled(ctx context.Context, l *load.Loader, s *serverReport) error {
	res := stalledResult{Clients: stalledClients, Stall: b.opts.stall, Rest: b.opts.rest}
	if b.opts.plan.Concurrency > 0 {
		res.Clients = b.opts.plan.Concurrency
	}
	b.log.Step("%s, %d clients", listStalled, res.Clients)
	w, err := b.completed(spec{name: listStalled, path: "/api/v1/secrets", accept: testbed.AcceptJSON, body: load.JSONList})
	if err == nil {
		w.Name = listStalled
		err = measureStalled(ctx, l, w, &res)
	}
	if err != nil {
		res.Error = err.Error()
	}
	s.Stalled = &res
	return b.concluded(ctx, err)
}

// measureStalled needs a meter.
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
	own := *l
	own.Plan.Warmup, own.Keep = 1, false
	first, err := own.WarmUp(ctx, conns[0], w)
	if err != nil {
		return err
	}
	if err := testbed.Sleep(ctx, l.Plan.Settle); err != nil {
		return err
	}
	run := &stalledRun{loader: l, workload: w, size: first.Bytes, stall: res.Stall}
	var ended []outcome
	before, peak, err := l.Meter.PeakDuring(func() error {
		ended = run.run(ctx, res.Clients)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	res.BodyBytes, res.IdleBytes, res.BeforeBytes, res.PeakBytes = first.Bytes, idle.RSS, before, peak
	res.count(ended)
	return nil
}

// count sorts the outcomes.
func (res *stalledResult) count(ended []outcome) {
	for _, slow := range []bool{false, true} {
		var r readers
		var took []time.Duration
		for _, o := range ended {
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

// stalledRun sends LISTs all at once and reads them to their ends.
type stalledRun struct {
	loader   *load.Loader
	workload load.Workload
	size     int64 // of a whole body
	stall    time.Duration
}

func (r *stalledRun) run(ctx context.Context, clients int) []outcome {
	ended := make([]outcome, clients)
	var group sync.WaitGroup
	for i := range ended {
		group.Go(func() {
			o, start := &ended[i], time.Now()
			o.slow = i%2 == 1
			o.err = r.read(ctx, o.slow)
			o.took = time.Since(start)
		})
	}
	group.Wait()
	return ended
}

// read is one LIST. A slow reader keeps to a rate at which the whole takes the
// time of a stall.
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
			return r.whole(total)
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

// whole tells a body that ended from one that ended too soon.
func (r *stalledRun) whole(total int64) error {
	if total < r.size-stalledSlack || total > r.size+stalledSlack {
		return fmt.Errorf("the body ended after %d bytes, where the first had %d", total, r.size)
	}
	return nil
}
