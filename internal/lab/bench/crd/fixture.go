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
	// documentPauseFactor is the pauseFactor of AwaitListed. The server then spends little of
	// its CPU on these polls.
	documentPauseFactor = 20
	// definitionsPerPage bounds a page of definitions, each of which may have 1 MB.
	definitionsPerPage = 20
)

// Fixture is a server in which definitions are installed, and which can be restarted over them.
// Each read path has a data directory, or an etcd, of its own. One goroutine may use a Fixture at
// a time.
type Fixture struct {
	opts      *Options
	Progress  *testbed.Progress
	Testbed   *testbed.Testbed
	ReadPath  string
	Generator *fill.Generator

	// Server is nil before Start. Meter and Conn belong to it.
	Server *testbed.Server
	Meter  *testbed.Meter
	Conn   *testbed.Conn
}

// Measurement is a subcommand's measurement of one server.
type Measurement interface {
	// Run measures. It ends with the first error, or with ctx.
	Run(context.Context) error
	// AddResult adds the result to the report. failure is the error of Run, or the cause of an
	// interrupt.
	AddResult(failure error)
}

// EachReadPath runs a measurement for each read path to measure, in a testbed of its own. After the
// failure of a measurement it continues with the next read path. If a testbed cannot be opened, it
// returns the error. If ctx ends, it returns the cause, after AddResult was
// called with that cause.
func (o *Options) EachReadPath(ctx context.Context, progress *testbed.Progress, measurementOf func(*Fixture) Measurement) error {
	generator, err := fill.NewGenerator(o.Shape())
	if err != nil {
		return err
	}
	for _, readPath := range o.measuredReadPaths() {
		bed, closeBed, err := testbed.Open(ctx, testbed.Config{Options: o.Options, Progress: progress, Subdirectory: readPath})
		if err != nil {
			return err
		}
		f := &Fixture{opts: o, Progress: progress, Testbed: bed, ReadPath: readPath, Generator: generator}
		m := measurementOf(f)
		err = m.Run(ctx)
		f.stop(ctx)
		err = errors.Join(err, closeBed())
		if ctx.Err() != nil {
			m.AddResult(context.Cause(ctx))
			return context.Cause(ctx)
		}
		if err != nil {
			progress.Phase("failed: %v", err)
		}
		m.AddResult(err)
	}
	return nil
}

// Step runs a step of the measurement, with the timeout of the plan. An error starts with the
// step's name, and says so if the server has ended by itself.
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

// Start starts the server, or restarts it. It only connects to the server of --at. logName is the
// name of its log without ".log".
func (f *Fixture) Start(ctx context.Context, logName string) error {
	f.stop(ctx)
	var err error
	if f.Server, err = f.Testbed.Start(ctx, f.ReadPath, logName); err != nil {
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

// stop ends the server, if there is one.
func (f *Fixture) stop(ctx context.Context) {
	if f.Conn != nil {
		f.Conn.Close()
	}
	if f.Server != nil {
		f.Testbed.End(ctx, f.Server)
	}
	f.Server = nil
	f.Conn = nil
}

// Get sends a request over Conn, and returns the body of the answer.
func (f *Fixture) Get(ctx context.Context, request testbed.Request) ([]byte, error) {
	req, err := f.Server.Target.NewRequest(ctx, request)
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
	Idle bool          `json:"idle"`
	cpu  time.Duration // since the process started
}

// AwaitIdle waits until the server is idle, and returns its state. It reads the number of
// goroutines last, because the request for it takes memory.
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

// Fill creates or deletes data through the server, as "fill" does. It sets REST and Workers of
// cfg.
func (f *Fixture) Fill(ctx context.Context, cfg fill.Config) error {
	cfg.REST, cfg.Workers = f.Server.Target.Config.REST, f.opts.Plan.Workers
	f.Testbed.SetFilled()
	filler, err := fill.New(cfg)
	if err != nil {
		return err
	}
	_, err = filler.Run(ctx)
	return err
}
