package crd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

const (
	DefinitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	AcceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	DiscoveryPath   = "/apis"
	pollInterval    = 50 * time.Millisecond
	// documentPauseFactor makes AwaitListed pause for so many times as long as it took to
	// get a document. The server then spends little of its CPU on these polls.
	documentPauseFactor = 20
	// definitionsPerPage bounds a page of definitions, which may have 1 MB each.
	definitionsPerPage = 20
)

// Fixture is a server in which definitions are installed, and which can start again with
// them. Each read path has a data directory, or an etcd, of its own.
type Fixture struct {
	opts      *Options
	Progress  *testbed.Progress
	Testbed   *testbed.Testbed
	ReadPath  string
	Generator *fill.Generator

	Server *testbed.Server // nil before Start
	Meter  *testbed.Meter
	Conn   *testbed.Conn
}

// Measurement is what a subcommand measures on one server.
type Measurement interface {
	Run(context.Context) error
	// Done adds the result to the report. failure is the error of Run, or the cause of an
	// interrupt.
	Done(failure error)
}

// EachPath runs a measurement for each read path, in a testbed without data. After a
// failure it continues with the next path. If ctx ends, it returns the cause; the result
// so far is in the report.
func (o *Options) EachPath(ctx context.Context, log *testbed.Progress, measurementOf func(*Fixture) Measurement) error {
	generator, err := fill.NewGenerator(o.Shape())
	if err != nil {
		return err
	}
	for _, path := range o.paths() {
		bed, closeBed, err := testbed.Open(ctx, testbed.Config{Options: o.Options, Progress: log, Subdirectory: path})
		if err != nil {
			return err
		}
		f := &Fixture{opts: o, Progress: log, Testbed: bed, ReadPath: path, Generator: generator}
		m := measurementOf(f)
		err = m.Run(ctx)
		f.stop(ctx)
		err = errors.Join(err, closeBed())
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

// Step runs a step of the measurement, with a timeout. An error begins with the step's
// name. If the server has ended by itself, the error says so.
func (f *Fixture) Step(ctx context.Context, name string, run func(context.Context) error) error {
	f.Progress.Phase("%s: %s", f.ReadPath, name)
	ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Plan.Timeout, fmt.Errorf("not done within --timeout=%s", f.opts.Plan.Timeout))
	defer cancel()
	err := run(ctx)
	if f.Server != nil {
		err = f.Testbed.ExplainExit(ctx, f.Server.Child, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, testbed.Cause(ctx, err))
	}
	return nil
}

// Start starts the server. If it runs, it is stopped first.
func (f *Fixture) Start(ctx context.Context, log string) error {
	f.stop(ctx)
	var err error
	if f.Server, err = f.Testbed.Start(ctx, f.ReadPath, log); err != nil {
		return err
	}
	f.Meter = f.Server.Meter()
	conns, err := f.Server.Target.Connect(ctx, 1)
	if err != nil {
		return err
	}
	f.Conn = conns[0]
	return nil
}

func (f *Fixture) stop(ctx context.Context) {
	if f.Conn != nil {
		f.Conn.Close()
	}
	if f.Server != nil {
		f.Testbed.End(ctx, f.Server)
	}
	f.Server, f.Conn = nil, nil
}

// Get returns the body of the answer.
func (f *Fixture) Get(ctx context.Context, w testbed.Request) ([]byte, error) {
	req, err := f.Server.Target.NewRequest(ctx, w)
	if err != nil {
		return nil, err
	}
	return f.Conn.FetchBody(req)
}

// State is the memory and goroutines of a server without load.
type State struct {
	RSSBytes   int64 `json:"rssBytes"`
	Goroutines int   `json:"goroutines"`
	// Idle is false if the server was busy until the last reading.
	Idle bool `json:"idle"`
	cpu  time.Duration
}

// AwaitIdle waits until the server is idle and reads its state. The number of goroutines
// is read last, because the request for it takes memory.
func (f *Fixture) AwaitIdle(ctx context.Context) (*State, error) {
	rest := f.opts.Plan.Rest
	f.Progress.Step("rest")
	now, idle, err := f.Meter.AwaitIdle(ctx, rest)
	if err != nil {
		return nil, err
	}
	s := State{RSSBytes: now.RSS, cpu: now.CPU, Idle: idle}
	metrics, err := f.Get(ctx, testbed.Request{URI: "/metrics", Accept: "*/*"})
	if err != nil {
		return nil, err
	}
	testbed.ParseMetrics(string(metrics), func(m testbed.Metric) {
		if m.Name == "go_goroutines" {
			s.Goroutines = int(m.Value)
		}
	})
	if s.Goroutines == 0 {
		return nil, errors.New("read metrics: no go_goroutines")
	}
	return &s, nil
}

// Fill creates or deletes data through the server, as "fill" does.
func (f *Fixture) Fill(ctx context.Context, cfg fill.Config) error {
	cfg.REST, cfg.Workers = f.Server.Target.Config.REST, f.opts.Plan.Workers
	f.Testbed.Filled()
	filler, err := fill.New(cfg)
	if err != nil {
		return err
	}
	_, err = filler.Run(ctx)
	return err
}
