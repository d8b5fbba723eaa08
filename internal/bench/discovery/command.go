package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench/crd"
	"github.com/millrace/millrace/internal/bench/load"
	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
	"github.com/millrace/millrace/internal/fill"
)

const acceptOpenAPIProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

// options are the flags of "bench discovery".
type options struct {
	crd.Options
	duration time.Duration
	rounds   int
	appear   int
}

func (o *options) validate() error {
	switch {
	case o.duration < time.Millisecond:
		return fmt.Errorf("--duration=%s: must be at least %s", o.duration, time.Millisecond)
	case o.rounds < 1:
		return fmt.Errorf("--rounds=%d: must be at least 1", o.rounds)
	case o.appear < 1:
		return fmt.Errorf("--appear=%d: must be at least 1", o.appear)
	}
	return o.Options.Validate()
}

func NewCommand(cfg testbed.Program) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "discovery",
		Short: "Measure discovery and OpenAPI",
		Long: `Measures what discovery and OpenAPI cost a server that has many custom resource
definitions: aggregated discovery whole and unchanged (304); the discovery of a
client that asks for every group version, with the rate limit of kubectl (50
requests a second, 300 at once) and without; the time until a new definition is
in aggregated discovery; OpenAPI v2 in both encodings, plain and with gzip; the
root of OpenAPI v3 and the document of one group version.

It starts this binary itself, over an empty data directory that it fills: with
--compare with either read path in turn, else with the first. Then it starts it
again, so that the first request of each kind is the very first.`,
		Example: `  millrace bench discovery --compare --crds 2000 --groups 400
  millrace bench discovery --crds 50 --groups 10 --duration 1s
  millrace bench discovery --from report.json -o markdown`,
	}
	testbed.Runner{
		Validate: o.validate,
		From:     &o.From, Output: &o.Output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, cfg, o, to) },
	}.Bind(cmd)
	o.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.duration, "duration", 5*time.Second, "how long to repeat each request")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "how often each client discovers everything")
	cmd.Flags().IntVar(&o.appear, "appear", 10, "definitions to add, one after another")
	return cmd
}

// execute prints the report also when some measurements failed or it is
// interrupted, and then fails.
func execute(ctx context.Context, cfg testbed.Program, o *options, to testbed.Streams) error {
	report := &report{Started: time.Now(), Machine: testbed.ThisMachine(), Protocol: "HTTP/2", ExternalEtcd: o.ExternalEtcd, Definitions: &o.Data,
		Plan: load.Plan{Duration: o.duration, Warmup: 1, Timeout: o.Plan.Timeout}}
	err := o.EachPath(ctx, cfg, testbed.NewProgress(to.Err), func(r *crd.Runner) crd.Measurement {
		return &bench{r, o, report, &serverReport{Name: r.ReadPath}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.check()
	return cmp.Or(err, testbed.ResultError(report.Write(to.Out, o.Output), report.failures()))
}

// bench measures one server.
type bench struct {
	*crd.Runner
	opts   *options
	report *report
	result *serverReport
}

func (b *bench) Done(failure error) {
	if failure != nil {
		b.result.Failed = append(b.result.Failed, failure.Error())
	}
	b.report.Servers = append(b.report.Servers, *b.result)
}

func (b *bench) Run(ctx context.Context) error {
	if err := b.Step(ctx, "install definitions", b.install); err != nil {
		return err
	}
	if err := b.Step(ctx, "start with them", b.restart); err != nil {
		return err
	}
	// What one of these does wrong is not the others' fault.
	return errors.Join(b.Step(ctx, "send requests", b.requests), b.Step(ctx, "discover as client-go does", b.discoverAll),
		b.Step(ctx, "add definitions", b.addDefinitions))
}

func (b *bench) install(ctx context.Context) error {
	if err := b.Start(ctx, "serve-fill"); err != nil {
		return err
	}
	if err := b.Fill(ctx, fill.Config{Shape: b.opts.Data.Shape()}); err != nil {
		return err
	}
	return b.AwaitListed(ctx, b.opts.Data.CRDs)
}

// restart waits without asking for what is measured then.
func (b *bench) restart(ctx context.Context) error {
	if err := b.Start(ctx, "serve"); err != nil {
		return err
	}
	b.result.StartMillis, b.result.Version = render.Millis(b.Server.Startup), b.Server.Target.Version(ctx)
	if err := b.AwaitAnswered(ctx); err != nil {
		return err
	}
	state, err := b.AwaitIdle(ctx)
	if err == nil {
		b.result.IdleBytes = state.RSSBytes
	}
	return err
}

// requests runs the workloads in turn; one that fails is in the results.
func (b *bench) requests(ctx context.Context) error {
	captures := b.Testbed.Captures(b.ReadPath)
	if err := os.MkdirAll(captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	l := &load.Loader{Target: b.Server.Target, Meter: b.Meter, Plan: b.report.Plan, CaptureDir: captures, Log: b.Progress}
	for _, w := range b.workloads() {
		res, _, err := l.Run(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.Progress.Phase("failed: %v", err)
			res = load.Result{Workload: w.Name, URI: w.URI, Error: err.Error()}
		}
		b.result.Results = append(b.result.Results, res)
	}
	unchanged, err := b.unchanged(ctx)
	if err != nil {
		return err
	}
	res, _, err := l.Run(ctx, unchanged)
	if err == nil {
		b.result.Results = append(b.result.Results, res)
	}
	return err
}

// workloads are the requests, one client each. The document of a group version
// is that of fill's first group.
func (b *bench) workloads() []load.Workload {
	group := crd.OpenAPIV3Path + "/apis/" + b.Generator.Definition(0).Group + "/v1"
	all := []load.Workload{
		{Name: "aggregated", Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery}, Body: load.JSONList, MinItems: b.opts.Data.Groups},
		{Name: "aggregated-gzip", Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery, Encoding: testbed.EncodingGzip}, Body: load.JSONList, MinItems: b.opts.Data.Groups},
		{Name: "openapi-v3", Request: testbed.Request{URI: crd.OpenAPIV3Path, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v3-group", Request: testbed.Request{URI: group, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v2", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v2-gzip", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: testbed.AcceptJSON, Encoding: testbed.EncodingGzip}},
		{Name: "openapi-v2-protobuf", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: acceptOpenAPIProtobuf}},
		{Name: "openapi-v2-protobuf-gzip", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: acceptOpenAPIProtobuf, Encoding: testbed.EncodingGzip}}, // as kubectl does
	}
	for i := range all {
		all[i].Concurrency = 1
		if all[i].MinItems == 0 {
			all[i].Body = load.AnyBody
		}
	}
	return all
}

// unchanged is the request of a client that has the document.
func (b *bench) unchanged(ctx context.Context) (load.Workload, error) {
	w := load.Workload{Name: "aggregated-304", Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery}, Body: load.AnyBody, Concurrency: 1}
	req, err := b.Server.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return w, err
	}
	if _, w.ETag, err = b.Conn.FetchTagged(req); err == nil && w.ETag == "" {
		err = errors.New("discovery has no ETag")
	}
	return w, err
}
