package list

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// slowReadBytes is the number of bytes that a slow reader reads between two pauses.
	slowReadBytes = 64 << 10
	// slowPause makes a slow reader read about 3 MB per second.
	slowPause = 20 * time.Millisecond
	// slowHold bounds the time for which all LISTs stay open together.
	slowHold = 3 * time.Second
)

// memoryResult is the memory that concurrent LISTs with slow readers cost a server.
type memoryResult struct {
	Lists        int   `json:"lists"`
	BodyBytes    int64 `json:"bodyBytes"`
	BeforeBytes  int64 `json:"beforeBytes"` // RSS after one LIST
	PeakBytes    int64 `json:"peakBytes"`
	PerListBytes int64 `json:"perListBytes"` // (PeakBytes - BeforeBytes) / Lists

	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// memoryRun keeps several LISTs open at the same time. Each reader reads slowReadBytes, waits until
// all readers have done so, and then continues slowly. Without the wait some LISTs could end before
// other LISTs start.
type memoryRun struct {
	loader   *load.Loader
	lists    int
	holdOpen time.Duration

	awaitingFirstBytes sync.WaitGroup // readers that have no bytes yet
	allOpen            chan struct{}  // closed when each reader has its first bytes
}

// runMemory measures the section list-memory.
func (b *bench) runMemory(ctx context.Context, l *load.Loader, s *serverReport) error {
	b.progress.Step("%s, %d slow readers", listMemory, b.opts.memoryLists)
	w, err := b.workloadOf(specByName("pods-json"))
	var m memoryResult
	if err == nil {
		w.Name = listMemory
		m, err = measureMemory(ctx, l, w, b.opts.memoryLists)
	}
	if err != nil {
		m = memoryResult{Lists: b.opts.memoryLists, Error: err.Error()}
	}
	s.Memory = &m
	return b.reportFailure(ctx, err)
}

// measureMemory sends one LIST, and then keeps several LISTs open at the same time. The server
// should not have served much before: free memory in its heap would hide what the LISTs need.
func measureMemory(ctx context.Context, l *load.Loader, w load.Workload, lists int) (memoryResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.Plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", listMemory, l.Plan.Timeout))
	defer cancel()
	conns, err := l.Target.Connect(ctx, 1)
	if err != nil {
		return memoryResult{}, err
	}
	defer testbed.CloseAll(conns)
	first, err := l.WarmUp(ctx, conns[0], w)
	if err != nil {
		return memoryResult{}, err
	}
	if err := testbed.Sleep(ctx, l.Plan.Settle); err != nil {
		return memoryResult{}, err
	}
	run := &memoryRun{
		loader: l, lists: lists, holdOpen: min(slowHold, max(l.Plan.Duration, testbed.PeakSampleInterval)),
		allOpen: make(chan struct{}),
	}
	before, peak, err := l.Meter.PeakDuring(func() error { return run.openAll(ctx, w) })
	if err != nil {
		return memoryResult{}, err
	}
	return memoryResult{
		Lists: lists, BodyBytes: first.Bytes, BeforeBytes: before,
		PeakBytes: peak, PerListBytes: (peak - before) / int64(lists),
	}, nil
}

// openAll opens the LISTs, and returns when they have all been open together for holdOpen, or at
// the first error. All readers have ended when it returns.
func (r *memoryRun) openAll(parent context.Context, w load.Workload) error {
	ctx, end := context.WithCancelCause(parent)
	var group sync.WaitGroup
	defer group.Wait()
	defer end(nil) // runs before the Wait above
	r.awaitingFirstBytes.Add(r.lists)
	for range r.lists {
		group.Go(func() {
			if err := r.read(ctx, w); err != nil {
				end(fmt.Errorf("run %s: %w", listMemory, err))
			}
		})
	}
	group.Go(func() {
		r.awaitingFirstBytes.Wait()
		close(r.allOpen)
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.allOpen:
		return testbed.Sleep(ctx, r.holdOpen)
	}
}

// read runs one slow reader until the end of ctx or of the body, and then returns nil.
func (r *memoryRun) read(ctx context.Context, w load.Workload) error {
	gotFirstBytes := sync.OnceFunc(r.awaitingFirstBytes.Done)
	defer gotFirstBytes()
	c, err := r.loader.Target.Dial(testbed.SlowWindow)
	if err != nil {
		return err
	}
	defer c.Close()
	req, err := r.loader.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return err
	}
	resp, err := c.Send(req)
	if err != nil {
		return testbed.Cause(ctx, err)
	}
	defer resp.Body.Close()
	for first := true; ; first = false {
		_, err := io.ReadFull(resp.Body, c.Buffer[:slowReadBytes])
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read body: %w", err)
		}
		if first {
			gotFirstBytes()
			select {
			case <-r.allOpen:
			case <-ctx.Done():
				return nil
			}
		}
		if testbed.Sleep(ctx, slowPause) != nil {
			return nil
		}
	}
}
