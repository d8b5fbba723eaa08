package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

const (
	// Every slowInformer-th informer is slow. It reads its first slowInformerBytes at a rate, and
	// then as fast as it can, so that the run ends.
	slowInformer               = 4
	slowInformerBytes          = 20_000_000
	slowInformerBytesPerSecond = 2_000_000
	// informerReadBytes is the size of an informer's buffer.
	informerReadBytes = 128 << 10

	// informersURI is the request of an informer that starts with a watch-list.
	informersURI = secretsURI + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	// listsURI is the request of an informer that starts with a LIST. Like client-go it has a
	// limit. Servers ignore it at resourceVersion=0.
	listsURI   = secretsURI + "?limit=500&resourceVersion=0"
	secretsURI = "/api/v1/secrets"
	// bodySizeTolerance is the number of bytes by which two bodies of the same LIST may differ:
	// their resource versions may differ in length.
	bodySizeTolerance = 64
	// memoryReturnTime bounds the time after the last bookmark in which a server can return
	// memory to the system. It is --rest if that is shorter.
	memoryReturnTime = 30 * time.Second
)

// informersResult is the cost of several informers that start at the same time.
type informersResult struct {
	Workload             string        `json:"workload"`
	Form                 string        `json:"form,omitempty"` // empty: json
	Informers            int           `json:"informers"`
	Slow                 int           `json:"slow"`            // number of slow informers
	Lists                bool          `json:"lists,omitempty"` // the informers start with a LIST
	Objects              int           `json:"objects"`         // received by each informer; 0 for a LIST, which is not decoded
	BodyBytes            int64         `json:"bodyBytes"`       // received by each informer
	Rest                 time.Duration `json:"restNanos"`       // before IdleBytes is read
	IdleBytes            int64         `json:"idleBytes"`
	PeakBytes            int64         `json:"peakBytes"`
	ReadyBytes           int64         `json:"readyBytes,omitempty"` // at the start of the measurement
	AfterBytes           int64         `json:"afterBytes,omitempty"` // Rest, or memoryReturnTime if that is less, after Seconds
	CPUSeconds           float64       `json:"cpuSeconds"`
	CPUMillisPerMB       float64       `json:"cpuMillisPerMB"`
	ClientCPUMillisPerMB float64       `json:"clientCPUMillisPerMB"`
	Seconds              float64       `json:"seconds"`       // until the last informer had its bookmark or its LIST
	MedianSeconds        float64       `json:"medianSeconds"` // of the informers that are not slow
	// Restarts is the number of restarts of all informers together.
	Restarts int `json:"restarts,omitempty"`
	// Memory is the RSS of the server over time, from the first request to the last byte.
	Memory []testbed.MemorySample `json:"memory,omitempty"`

	Error string `json:"error,omitempty"` // not empty: nothing was measured
}

// informerRun runs several informers at the same time.
type informerRun struct {
	target   *testbed.Target
	meter    *testbed.Meter
	uri      string
	progress *testbed.Progress
	// pause is the time before an informer restarts.
	pause time.Duration
	// form and lists are set by measureInformers. The zero value of form is JSON.
	form  streamForm
	lists bool
}

// informerPause is about the pause of client-go's informers before they restart.
const informerPause = time.Second

// newInformerRun returns a run of informers that send uri, unless they start with a LIST.
func newInformerRun(t *testbed.Target, m *testbed.Meter, uri string, progress *testbed.Progress) *informerRun {
	return &informerRun{target: t, meter: m, uri: uri, progress: progress, pause: informerPause}
}

// informerTotals are the counts of one informer since its last restart. took includes restarts.
type informerTotals struct {
	slow     bool
	objects  int
	bytes    int64
	took     time.Duration
	restarts int
}

// measureInformers runs the informers of a workload until each has its bookmark, or its whole LIST.
func (r *informerRun) measureInformers(ctx context.Context, s informerWorkload, p plan) (informersResult, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout+testbed.MaxRests*p.Rest,
		fmt.Errorf("run %s: not done within --timeout=%s", s.name, p.Timeout))
	defer cancel()
	ready, err := r.meter.Read()
	if err != nil {
		return informersResult{}, err
	}
	idle, err := r.meter.AwaitIdleWithProgress(ctx, r.progress, s.name, p.Rest)
	if err != nil {
		return informersResult{}, err
	}
	var informers []informerTotals
	clientBefore, start := testbed.ClientCPU(), time.Now()
	_, peak, memory, err := r.meter.TraceDuring(func() (err error) {
		r.form, r.lists = s.form, s.lists
		informers, err = r.runInformers(ctx, s.informers)
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
	res := informersResult{Workload: s.name, Form: s.form.name, Lists: s.lists, Memory: memory, Rest: p.Rest, ReadyBytes: ready.RSS,
		IdleBytes: idle.RSS, PeakBytes: peak,
		CPUSeconds: (after.CPU - idle.CPU).Seconds(), Seconds: took.Seconds()}
	megabytes := float64(res.sum(informers)) / 1e6
	res.CPUMillisPerMB, res.ClientCPUMillisPerMB = 1000*res.CPUSeconds/megabytes, render.Millis(clientUsed)/megabytes
	if err := testbed.Sleep(ctx, min(p.Rest, memoryReturnTime)); err != nil {
		return res, err
	}
	if after, err = r.meter.Read(); err != nil {
		return res, err
	}
	res.AfterBytes = after.RSS
	return res, res.check(informers)
}

// sum sets the fields that follow from the informers' counts. It returns the bytes that all
// informers together received.
func (res *informersResult) sum(informers []informerTotals) (total int64) {
	var fast []time.Duration
	for _, one := range informers {
		total += one.bytes
		res.Restarts += one.restarts
		if one.slow {
			res.Slow++
		} else {
			fast = append(fast, one.took)
		}
	}
	slices.Sort(fast)
	res.Informers, res.Objects, res.BodyBytes = len(informers), informers[0].objects, informers[0].bytes
	res.MedianSeconds = render.Percentile(fast, 50).Seconds()
	return total
}

// check returns an error unless all informers received equally many objects, or bytes of a LIST.
func (res *informersResult) check(informers []informerTotals) error {
	for i, one := range informers {
		if res.Lists {
			if more := one.bytes - res.BodyBytes; more < -bodySizeTolerance || more > bodySizeTolerance {
				return fmt.Errorf("informer %d got %d bytes, the first informer %d", i, one.bytes, res.BodyBytes)
			}
			continue
		}
		if one.objects != res.Objects || one.objects == 0 {
			return fmt.Errorf("informer %d got %d objects, the first informer %d", i, one.objects, res.Objects)
		}
	}
	return nil
}

// runInformers runs a number of informers, and returns their counts when all have ended. The first
// error ends them.
func (r *informerRun) runInformers(parent context.Context, informers int) ([]informerTotals, error) {
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)
	all := make([]informerTotals, informers)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			totals, start := &all[i], time.Now()
			totals.slow = i%slowInformer == slowInformer-1
			if err := r.follow(ctx, totals); err != nil {
				fail(fmt.Errorf("informer %d, after %d objects and %d bytes: %w", i, totals.objects, totals.bytes, err))
			}
			totals.took = time.Since(start)
		})
	}
	group.Wait()
	return all, context.Cause(ctx)
}

// maxRestarts bounds the restarts of an informer.
const maxRestarts = 10

// follow runs one informer. Like client-go's informers it restarts if the server refuses its
// request, or ends the answer too early. It returns the error of the last attempt.
func (r *informerRun) follow(ctx context.Context, totals *informerTotals) error {
	for {
		err := r.readObjects(ctx, totals, io.Discard)
		if err == nil || ctx.Err() != nil || totals.restarts == maxRestarts {
			return err
		}
		if err := testbed.Sleep(ctx, max(r.pause, testbed.RetryAfter(err))); err != nil {
			return err
		}
		totals.restarts++
		totals.objects = 0
		totals.bytes = 0
	}
}

// request returns the first request of an informer.
func (r *informerRun) request() testbed.Request {
	request := testbed.Request{URI: r.uri, Accept: cmp.Or(r.form.accept, testbed.AcceptJSON), Encoding: r.form.encoding}
	if r.lists {
		request.URI = listsURI
		request.Accept = strings.Replace(request.Accept, acceptWatchProtobuf, testbed.AcceptProtobuf, 1)
	}
	return request
}

// readObjects sends an informer's request and reads the answer, until the bookmark or the end of
// the LIST. It adds to totals, and writes the decompressed bytes to copyTo.
func (r *informerRun) readObjects(ctx context.Context, totals *informerTotals, copyTo io.Writer) error {
	window := 0
	if totals.slow {
		window = testbed.SlowWindow
	}
	c, err := newConnection(r.target, window, 0)
	if err != nil {
		return err
	}
	defer c.close()
	req, err := r.target.NewRequest(ctx, r.request())
	if err != nil {
		return err
	}
	resp, err := testbed.Send(c.rt, req)
	if err != nil {
		return testbed.Cause(ctx, err)
	}
	defer resp.Body.Close()
	body, err := r.body(resp, &totals.bytes)
	if err != nil {
		return err
	}
	scanner := r.form.endScanner()
	done := false
	buf, start := make([]byte, informerReadBytes), time.Now()
	for !done {
		n, err := body.Read(buf)
		if !r.lists {
			scanner.Feed(buf[:n], func(e testbed.Event) {
				switch {
				case e.IsType("ADDED"):
					totals.objects++
				case e.IsType("BOOKMARK") && e.Marked:
					done = true
				}
			})
		}
		if _, err := copyTo.Write(buf[:n]); err != nil {
			return err
		}
		if r.lists && err != nil {
			if err == io.EOF {
				break
			}
			return fmt.Errorf("read LIST: %w", testbed.Cause(ctx, err))
		}
		if err != nil && !done {
			return fmt.Errorf("the watch-list ended without its bookmark: %w", testbed.Cause(ctx, err))
		}
		if totals.slow && totals.bytes < slowInformerBytes {
			due := time.Duration(float64(totals.bytes) / slowInformerBytesPerSecond * float64(time.Second))
			if err := testbed.Sleep(ctx, time.Until(start.Add(due))); err != nil {
				return err
			}
		}
	}
	return nil
}

// body returns a reader of an answer's body. The reader adds the bytes to count as they were sent.
// It decompresses a watch-list, but not a LIST, because only the size of a LIST is used.
func (r *informerRun) body(resp *http.Response, count *int64) (io.Reader, error) {
	wire := &wireReader{Reader: resp.Body, bytes: count}
	if resp.Header.Get("Content-Encoding") != testbed.EncodingGzip || r.lists {
		return wire, nil
	}
	body, err := gzip.NewReader(wire)
	if err != nil {
		return nil, fmt.Errorf("decode watch-list: %w", err)
	}
	return body, nil
}

// wireReader counts the bytes that are read from it, before they are decompressed.
type wireReader struct {
	io.Reader
	bytes *int64
}

// Read implements io.Reader.
func (r *wireReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	*r.bytes += int64(n)
	return n, err
}

// capture stores in dir what one informer receives of a watch-list as JSON, for the floor to send.
func (r *informerRun) capture(ctx context.Context, dir string) (floor.Body, error) {
	f, err := os.Create(filepath.Join(dir, watchListGroup))
	if err != nil {
		return floor.Body{}, fmt.Errorf("create capture: %w", err)
	}
	r.form = streamForm{}
	r.lists = false
	err = errors.Join(r.readObjects(ctx, &informerTotals{}, f), f.Close())
	if err != nil {
		return floor.Body{}, fmt.Errorf("capture a watch-list: %w", err)
	}
	return floor.Body{Name: watchListGroup, ContentType: testbed.AcceptJSON}, nil
}
