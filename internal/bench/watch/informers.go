package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/bench/floor"
	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// Every fourth informer is slow: it reads its first bytes at a rate, and then
	// as fast as it can, so that the run ends.
	slowInformer      = 4
	slowInformerBytes = 20_000_000
	slowInformerRate  = 2_000_000 // a second
	// informerRead is a reader's buffer.
	informerRead = 128 << 10

	informersURI  = "/api/v1/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	initialEndKey = "k8s.io/initial-events-end"
	initialEnd    = `"` + initialEndKey + `":"true"`
	// giveBack is how long a server has to give memory back to the system.
	giveBack = 30 * time.Second
)

// informersResult is what informers cost that begin with a watch-list at once.
type informersResult struct {
	Workload      string        `json:"workload"`
	Form          string        `json:"form,omitempty"` // empty: json
	Informers     int           `json:"informers"`
	Slow          int           `json:"slow"`      // of them
	Objects       int           `json:"objects"`   // that each got
	BodyBytes     int64         `json:"bodyBytes"` // that each got
	Rest          time.Duration `json:"restNanos"` // before idle is read
	IdleBytes     int64         `json:"idleBytes"`
	PeakBytes     int64         `json:"peakBytes"`
	ReadyBytes    int64         `json:"readyBytes,omitempty"` // when the measurement began
	AfterBytes    int64         `json:"afterBytes,omitempty"` // giveBack after the last bookmark
	CPUSeconds    float64       `json:"cpuSeconds"`
	CPUMillis     float64       `json:"cpuMillisPerMB"`
	ClientMillis  float64       `json:"clientCPUMillisPerMB"`
	Seconds       float64       `json:"seconds"`       // until the last had its bookmark
	MedianSeconds float64       `json:"medianSeconds"` // of those that are not slow

	Error string `json:"error,omitempty"` // if set, nothing was measured
}

// informerRun is the informers of one measurement.
type informerRun struct {
	target *testbed.Target
	meter  *testbed.Meter
	uri    string
	log    *testbed.Progress
	// form is that of the workload. The zero value is JSON.
	form informerForm
}

// share is what one informer got.
type share struct {
	slow    bool
	objects int
	bytes   int64
	took    time.Duration
}

// measure runs the informers until each has its bookmark.
func (r *informerRun) measure(ctx context.Context, s informerWorkload, plan plan) (informersResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, plan.Timeout+testbed.MaxRests*plan.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", s.name, plan.Timeout))
	defer cancel()
	ready, err := r.meter.Read()
	if err != nil {
		return informersResult{}, err
	}
	idle, err := r.meter.AwaitIdleLogged(ctx, r.log, s.name, plan.Rest)
	if err != nil {
		return informersResult{}, err
	}
	var shares []share
	clientBefore, start := testbed.ClientCPU(), time.Now()
	_, peak, err := r.meter.PeakDuring(func() (err error) {
		r.form = s.form
		shares, err = r.run(ctx, s.informers)
		return err
	})
	if err != nil {
		return informersResult{}, err
	}
	took, clientUsed := time.Since(start), testbed.ClientCPU()-clientBefore
	after, err := r.meter.Read()
	if err != nil {
		return informersResult{}, err
	}
	res := informersResult{Workload: s.name, Form: s.form.name, Rest: plan.Rest, ReadyBytes: ready.RSS, IdleBytes: idle.RSS, PeakBytes: peak,
		CPUSeconds: (after.CPU - idle.CPU).Seconds(), Seconds: took.Seconds()}
	megabytes := float64(res.sum(shares)) / 1e6
	res.CPUMillis, res.ClientMillis = 1000*res.CPUSeconds/megabytes, render.Millis(clientUsed)/megabytes
	if err := testbed.Sleep(ctx, min(plan.Rest, giveBack)); err != nil {
		return res, err
	}
	if after, err = r.meter.Read(); err != nil {
		return res, err
	}
	res.AfterBytes = after.RSS
	return res, res.check(shares)
}

// sum fills in what the shares say and returns the bytes of all.
func (res *informersResult) sum(shares []share) (total int64) {
	var fast []time.Duration
	for _, one := range shares {
		total += one.bytes
		if one.slow {
			res.Slow++
		} else {
			fast = append(fast, one.took)
		}
	}
	slices.Sort(fast)
	res.Informers, res.Objects, res.BodyBytes = len(shares), shares[0].objects, shares[0].bytes
	res.MedianSeconds = render.Percentile(fast, 50).Seconds()
	return total
}

// check finds informers that did not get what the first got.
func (res *informersResult) check(shares []share) error {
	for i, one := range shares {
		if one.objects != res.Objects || one.objects == 0 {
			return fmt.Errorf("informer %d got %d objects, the first %d", i, one.objects, res.Objects)
		}
	}
	return nil
}

func (r *informerRun) run(parent context.Context, informers int) ([]share, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	shares := make([]share, informers)
	var group sync.WaitGroup
	for i := range shares {
		group.Go(func() {
			own, start := &shares[i], time.Now()
			own.slow = i%slowInformer == slowInformer-1
			if err := r.read(ctx, own, io.Discard); err != nil {
				fail(fmt.Errorf("informer %d, after %d objects and %d bytes: %w", i, own.objects, own.bytes, err))
			}
			own.took = time.Since(start)
		})
	}
	group.Wait()
	return shares, context.Cause(ctx)
}

// read is one informer; it ends with the bookmark. copyTo gets all bytes.
func (r *informerRun) read(ctx context.Context, own *share, copyTo io.Writer) error {
	window := 0
	if own.slow {
		window = testbed.SlowWindow
	}
	l, err := dialConnection(r.target, window, 0)
	if err != nil {
		return err
	}
	defer l.close()
	req, err := r.target.NewRequest(ctx, testbed.Request{URI: r.uri, Accept: cmp.Or(r.form.accept, testbed.AcceptJSON), Encoding: r.form.encoding})
	if err != nil {
		return err
	}
	resp, err := testbed.Send(l.rt, req)
	if err != nil {
		return testbed.Cause(ctx, err)
	}
	defer resp.Body.Close()
	wire := &wireReader{Reader: resp.Body, bytes: &own.bytes}
	body := io.Reader(wire)
	if resp.Header.Get("Content-Encoding") == testbed.EncodingGzip {
		if body, err = gzip.NewReader(wire); err != nil {
			return fmt.Errorf("decode watch-list: %w", err)
		}
	}
	scanner, done := r.form.scanner(), false
	buf, start := make([]byte, informerRead), time.Now()
	for !done {
		n, err := body.Read(buf)
		scanner.feed(buf[:n], func(e event) {
			switch {
			case e.is("ADDED"):
				own.objects++
			case e.is("BOOKMARK") && e.marked:
				done = true
			}
		})
		if _, err := copyTo.Write(buf[:n]); err != nil {
			return err
		}
		if err != nil && !done {
			return fmt.Errorf("it ended without its bookmark: %w", testbed.Cause(ctx, err))
		}
		if own.slow && own.bytes < slowInformerBytes {
			due := time.Duration(float64(own.bytes) / slowInformerRate * float64(time.Second))
			if err := testbed.Sleep(ctx, time.Until(start.Add(due))); err != nil {
				return err
			}
		}
	}
	return nil
}

// wireReader counts what comes.
type wireReader struct {
	io.Reader
	bytes *int64
}

func (r *wireReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	*r.bytes += int64(n)
	return n, err
}

// capture keeps what one informer gets for the floor.
func (r *informerRun) capture(ctx context.Context, dir string) (floor.Body, error) {
	f, err := os.Create(filepath.Join(dir, watchListGroup))
	if err != nil {
		return floor.Body{}, fmt.Errorf("create capture: %w", err)
	}
	r.form = informerForm{}
	err = errors.Join(r.read(ctx, &share{}, f), f.Close())
	if err != nil {
		return floor.Body{}, fmt.Errorf("capture a watch-list: %w", err)
	}
	return floor.Body{Name: watchListGroup, File: watchListGroup, ContentType: testbed.AcceptJSON}, nil
}
