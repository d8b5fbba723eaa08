package crd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/bench/testbed"
	"github.com/millrace/millrace/internal/fill"
)

const (
	DefinitionsPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	AcceptDiscovery     = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	DiscoveryPath       = "/apis"
	pollInterval        = 50 * time.Millisecond
	documentPauseFactor = 20 // of the time of a poll that brings a document passes before the next
	definitionsPerPage  = 20 // of up to 1 MB each
)

// Runner is one server that definitions are installed in, and starts again with
// them. Each read path has a data directory or an etcd of its own.
type Runner struct {
	opts      *Options
	Progress  *testbed.Progress
	Testbed   *testbed.Testbed
	ReadPath  string
	Generator *fill.Generator

	Server *testbed.Server // the one that runs
	Meter  *testbed.Meter
	Conn   *testbed.Conn
}

// Measurement is what is measured on one server.
type Measurement interface {
	Run(context.Context) error
	// Done puts into the report what was measured, and why it is not all.
	Done(failure error)
}

// EachPath gives every read path an empty testbed, and measures. A server that
// fails does not keep the next one from being measured. The end of ctx does, with
// its cause; what was measured by then is in the report.
func (o *Options) EachPath(ctx context.Context, cfg testbed.Program, log *testbed.Progress, on func(*Runner) Measurement) error {
	generator, err := fill.NewGenerator(o.Data.Shape())
	if err != nil {
		return err
	}
	for _, path := range o.paths() {
		bed, closeBed, err := testbed.Open(ctx, cfg, testbed.Config{Options: o.Options, Progress: log, Subdirectory: path})
		if err != nil {
			return err
		}
		r := &Runner{opts: o, Progress: log, Testbed: bed, ReadPath: path, Generator: generator}
		m := on(r)
		err = m.Run(ctx)
		r.stop(ctx)
		closeBed()
		if ctx.Err() != nil {
			m.Done(context.Cause(ctx))
			return context.Cause(ctx)
		}
		if err != nil {
			log.Phase("failed: %v", err)
		}
		m.Done(err)
	}
	return nil
}

// Step runs a part of the measurement within its time.
func (r *Runner) Step(ctx context.Context, name string, run func(context.Context) error) error {
	r.Progress.Phase("%s: %s", r.ReadPath, name)
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Plan.Timeout, fmt.Errorf("not done within --timeout=%s", r.opts.Plan.Timeout))
	defer cancel()
	err := run(ctx)
	if r.Server != nil {
		err = r.Testbed.ExplainExit(ctx, r.Server.Child, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, testbed.Cause(ctx, err))
	}
	return nil
}

// Start starts the server, once more if it runs.
func (r *Runner) Start(ctx context.Context, log string) error {
	r.stop(ctx)
	var err error
	if r.Server, err = r.Testbed.Start(ctx, r.ReadPath, log); err != nil {
		return err
	}
	r.Meter = testbed.NewMeter(r.Server.PID())
	conns, err := r.Server.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	r.Conn = conns[0]
	return nil
}

func (r *Runner) stop(ctx context.Context) {
	if r.Conn != nil {
		r.Conn.Close()
	}
	if r.Server != nil {
		r.Testbed.End(ctx, r.Server)
	}
	r.Server, r.Conn = nil, nil
}

// Get is the answer to a GET.
func (r *Runner) Get(ctx context.Context, w testbed.Request) ([]byte, error) {
	req, err := r.Server.Target.NewRequest(ctx, w)
	if err != nil {
		return nil, err
	}
	return r.Conn.FetchBody(req)
}

// State is what a server occupies when nobody asks for anything.
type State struct {
	RSSBytes   int64 `json:"rssBytes"`
	Goroutines int   `json:"goroutines"`
	// Idle is false if the server never was.
	Idle bool `json:"idle"`
	cpu  time.Duration
}

// AwaitIdle waits until the server is idle and reads its state. Asking for the
// goroutines costs memory, so that comes last.
func (r *Runner) AwaitIdle(ctx context.Context) (*State, error) {
	rest := r.opts.Plan.Rest
	r.Progress.Step("rest")
	now, idle, err := r.Meter.AwaitIdle(ctx, rest)
	if err != nil {
		return nil, err
	}
	s := State{RSSBytes: now.RSS, cpu: now.CPU, Idle: idle}
	metrics, err := r.Get(ctx, testbed.Request{URI: "/metrics", Accept: "*/*"})
	if err != nil {
		return nil, err
	}
	s.Goroutines, err = goroutines(metrics)
	return &s, err
}

// goroutines finds their number in what a server tells of itself.
func goroutines(metrics []byte) (int, error) {
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("read metrics: no go_goroutines")
}

// Fill writes or removes data through the server, as "fill" does.
func (r *Runner) Fill(ctx context.Context, cfg fill.Config) error {
	cfg.REST, cfg.Workers = r.Server.Target.Config.REST, r.opts.Plan.Workers
	filler, err := fill.New(cfg)
	if err != nil {
		return err
	}
	_, err = filler.Run(ctx)
	return err
}

// discoveryDocument is the part of a discovery document that counts.
type discoveryDocument struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Resources []struct {
				Resource string `json:"resource"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}

// resources counts those of fill's definitions.
func (d *discoveryDocument) resources() int {
	n := 0
	for _, group := range d.Items {
		if !strings.HasSuffix(group.Metadata.Name, fill.CRDGroupSuffix) {
			continue
		}
		for _, version := range group.Versions {
			n += len(version.Resources)
		}
	}
	return n
}

// AwaitListed returns when aggregated discovery lists so many of fill's
// resources.
func (r *Runner) AwaitListed(ctx context.Context, want int) error {
	listed := 0
	err := r.AwaitDiscovery(ctx, documentPauseFactor, func(body []byte) (bool, error) {
		var d discoveryDocument
		if err := json.Unmarshal(body, &d); err != nil {
			return false, fmt.Errorf("decode discovery: %w", err)
		}
		listed = d.resources()
		return listed == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait until discovery lists %d resources (it lists %d): %w", want, listed, err)
	}
	return nil
}

// AwaitDiscovery returns when a discovery document is as wanted. It costs the
// server little: it asks for changes alone, and behind each pauses for so many times as
// long as that took, for where all changes all the time.
func (r *Runner) AwaitDiscovery(ctx context.Context, times int, wanted func(body []byte) (bool, error)) error {
	w := testbed.Request{URI: DiscoveryPath, Accept: AcceptDiscovery}
	for {
		req, err := r.Server.Target.NewRequest(ctx, w)
		if err != nil {
			return err
		}
		began, pause := time.Now(), pollInterval/5
		body, etag, err := r.Conn.FetchTagged(req)
		if err != nil {
			return testbed.Cause(ctx, err)
		}
		if len(body) > 0 {
			if done, err := wanted(body); done || err != nil {
				return err
			}
			pause = max(pause, time.Duration(times)*time.Since(began))
		}
		w.ETag = etag
		if err := testbed.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// AwaitAnswered returns when the objects of each sampled definition can be
// listed.
func (r *Runner) AwaitAnswered(ctx context.Context) error {
	asked, _ := r.opts.sampleDefinitions()
	for _, i := range asked {
		w := testbed.Request{URI: r.Generator.Definition(i).Path("") + "?limit=1", Accept: testbed.AcceptJSON}
		for {
			_, err := r.Get(ctx, w)
			if err == nil {
				break
			}
			var refused *testbed.StatusError
			if !errors.As(err, &refused) {
				return testbed.Cause(ctx, err)
			}
			if ended := testbed.Sleep(ctx, pollInterval); ended != nil {
				return fmt.Errorf("%w; last answer: %w", ended, err)
			}
		}
	}
	return nil
}

// established returns when the last definition was, to the second.
func (r *Runner) established(ctx context.Context) (time.Time, error) {
	var last time.Time
	token := ""
	for {
		var page definitionPage
		body, err := r.Get(ctx, testbed.Request{URI: fmt.Sprintf("%s?limit=%d&continue=%s", DefinitionsPath, definitionsPerPage, url.QueryEscape(token)), Accept: testbed.AcceptJSON})
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return last, fmt.Errorf("list definitions: %w", testbed.Cause(ctx, err))
		}
		for _, item := range page.Items {
			at, ok := item.established()
			if !ok {
				return last, fmt.Errorf("definition %s is not established", item.Metadata.Name)
			}
			if at.After(last) {
				last = at
			}
		}
		if token = page.Metadata.Continue; token == "" {
			return last, nil
		}
	}
}

type definitionPage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []definitionState `json:"items"`
}

type definitionState struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type   string    `json:"type"`
			Status string    `json:"status"`
			Since  time.Time `json:"lastTransitionTime"`
		} `json:"conditions"`
	} `json:"status"`
}

func (d definitionState) established() (time.Time, bool) {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return c.Since, true
		}
	}
	return time.Time{}, false
}
