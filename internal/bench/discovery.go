package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/fill"
)

const acceptOpenAPIProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

// discoveryOptions are the flags of "bench discovery".
type discoveryOptions struct {
	crdOptions
	duration time.Duration
	rounds   int
	appear   int
}

func (o *discoveryOptions) validate() error {
	switch {
	case o.duration < time.Millisecond:
		return fmt.Errorf("--duration=%s: must be at least %s", o.duration, time.Millisecond)
	case o.rounds < 1:
		return fmt.Errorf("--rounds=%d: must be at least 1", o.rounds)
	case o.appear < 1:
		return fmt.Errorf("--appear=%d: must be at least 1", o.appear)
	}
	return o.crdOptions.validate()
}

func newDiscoveryCommand(cfg Config) *cobra.Command {
	o := &discoveryOptions{}
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
	measuring{
		validate: o.validate,
		from:     &o.from, output: &o.output, empty: func() saved { return &discoveryReport{} },
		measure: func(ctx context.Context, to streams) error { return runDiscovery(ctx, cfg, o, to) },
	}.by(cmd)
	o.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.duration, "duration", 5*time.Second, "how long to repeat each request")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "how often each client discovers everything")
	cmd.Flags().IntVar(&o.appear, "appear", 10, "definitions to add, one after another")
	return cmd
}

// runDiscovery prints the report also when some measurements failed or it is
// interrupted, and then fails.
func runDiscovery(ctx context.Context, cfg Config, o *discoveryOptions, to streams) error {
	report := &discoveryReport{Started: time.Now(), Machine: thisMachine(), Protocol: "HTTP/2", ExternalEtcd: o.externalEtcd, Definitions: &o.data,
		Plan: plan{Duration: o.duration, Warmup: 1, Timeout: o.plan.Timeout}}
	err := o.eachPath(ctx, cfg, newProgress(to.err), func(r *crdRun) crdMeasurement {
		return &discoveryBench{r, o, report, &discoveryServer{Name: r.path}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.check()
	return cmp.Or(err, conclude(report.write(to.out, o.output), report.failures()))
}

// discoveryBench measures one server.
type discoveryBench struct {
	*crdRun
	opts   *discoveryOptions
	report *discoveryReport
	to     *discoveryServer
}

func (b *discoveryBench) done(failure error) {
	if failure != nil {
		b.to.Failed = append(b.to.Failed, failure.Error())
	}
	b.report.Servers = append(b.report.Servers, *b.to)
}

func (b *discoveryBench) run(ctx context.Context) error {
	if err := b.step(ctx, "install definitions", b.install); err != nil {
		return err
	}
	if err := b.step(ctx, "start with them", b.restart); err != nil {
		return err
	}
	// What one of these does wrong is not the others' fault.
	return errors.Join(b.step(ctx, "send requests", b.requests), b.step(ctx, "discover as client-go does", b.clients),
		b.step(ctx, "add definitions", b.appear))
}

func (b *discoveryBench) install(ctx context.Context) error {
	if err := b.start(ctx, "serve-fill"); err != nil {
		return err
	}
	if err := b.fill(ctx, fill.Config{Shape: b.opts.data.shape()}); err != nil {
		return err
	}
	return b.awaitListed(ctx, b.opts.data.CRDs)
}

// restart waits without asking for what is measured then.
func (b *discoveryBench) restart(ctx context.Context) error {
	if err := b.start(ctx, "serve"); err != nil {
		return err
	}
	b.to.StartMillis, b.to.Version = millis(b.server.startup), b.server.target.version(ctx)
	if err := b.awaitAnswered(ctx); err != nil {
		return err
	}
	state, err := b.settled(ctx)
	if err == nil {
		b.to.IdleBytes = state.RSSBytes
	}
	return err
}

// requests runs the workloads in turn; one that fails is in the results.
func (b *discoveryBench) requests(ctx context.Context) error {
	captures := b.bed.captures(b.path)
	if err := os.MkdirAll(captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	l := &loader{target: b.server.target, meter: b.meter, plan: b.report.Plan, captures: captures, log: b.log}
	for _, w := range b.workloads() {
		res, _, err := l.run(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			b.log.phase("failed: %v", err)
			res = result{Workload: w.name, URI: w.uri, Error: err.Error()}
		}
		b.to.Results = append(b.to.Results, res)
	}
	unchanged, err := b.unchanged(ctx)
	if err != nil {
		return err
	}
	res, _, err := l.run(ctx, unchanged)
	if err == nil {
		b.to.Results = append(b.to.Results, res)
	}
	return err
}

// workloads are the requests, one client each. The document of a group version
// is that of fill's first group.
func (b *discoveryBench) workloads() []workload {
	group := openAPIV3Path + "/apis/" + b.generator.Definition(0).Group + "/v1"
	all := []workload{
		{name: "aggregated", request: request{uri: discoveryPath, accept: acceptDiscovery}, body: bodyJSONList, minItems: b.opts.data.Groups},
		{name: "aggregated-gzip", request: request{uri: discoveryPath, accept: acceptDiscovery, encoding: encodingGzip}, body: bodyJSONList, minItems: b.opts.data.Groups},
		{name: "openapi-v3", request: request{uri: openAPIV3Path, accept: acceptJSON}},
		{name: "openapi-v3-group", request: request{uri: group, accept: acceptJSON}},
		{name: "openapi-v2", request: request{uri: openAPIV2Path, accept: acceptJSON}},
		{name: "openapi-v2-gzip", request: request{uri: openAPIV2Path, accept: acceptJSON, encoding: encodingGzip}},
		{name: "openapi-v2-protobuf", request: request{uri: openAPIV2Path, accept: acceptOpenAPIProtobuf}},
		{name: "openapi-v2-protobuf-gzip", request: request{uri: openAPIV2Path, accept: acceptOpenAPIProtobuf, encoding: encodingGzip}}, // as kubectl does
	}
	for i := range all {
		all[i].concurrency = 1
		if all[i].minItems == 0 {
			all[i].body = bodyAny
		}
	}
	return all
}

// unchanged is the request of a client that has the document.
func (b *discoveryBench) unchanged(ctx context.Context) (workload, error) {
	w := workload{name: "aggregated-304", request: request{uri: discoveryPath, accept: acceptDiscovery}, body: bodyAny, concurrency: 1}
	req, err := b.server.target.newRequest(ctx, w.request)
	if err != nil {
		return w, err
	}
	if _, w.etag, err = b.conn.fetchTagged(req); err == nil && w.etag == "" {
		err = errors.New("discovery has no ETag")
	}
	return w, err
}
