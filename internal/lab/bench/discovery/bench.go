package discovery

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/tool/render"
)

// bench measures one server.
type bench struct {
	*crd.Fixture
	opts   *options
	report *report
	result *serverReport
}

// AddResult implements crd.Measurement.
func (b *bench) AddResult(failure error) {
	if failure != nil {
		b.result.Failed = append(b.result.Failed, failure.Error())
	}
	b.report.Servers = append(b.report.Servers, *b.result)
}

// Run implements crd.Measurement.
func (b *bench) Run(ctx context.Context) error {
	if err := b.Step(ctx, "install definitions", b.install); err != nil {
		return err
	}
	if err := b.Step(ctx, "restart", b.restart); err != nil {
		return err
	}
	// A step that fails does not prevent the next steps.
	return errors.Join(
		b.Step(ctx, "send requests", b.runWorkloads),
		b.Step(ctx, "discover as client-go does", b.discoverAll),
		b.Step(ctx, "add definitions", b.addDefinitions))
}

// install starts the server and fills the definitions in.
func (b *bench) install(ctx context.Context) error {
	if err := b.Start(ctx, "serve-fill"); err != nil {
		return err
	}
	if err := b.Fill(ctx, fill.Config{Shape: b.opts.Shape()}); err != nil {
		return err
	}
	return b.AwaitListed(ctx, b.opts.Data.CRDs)
}

// restart restarts the server, and waits until it answers requests for custom objects and is
// idle. It sends none of the requests that are measured later: each must be the first of its
// kind. The server of --at is not restarted, and has had such requests before.
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

// runWorkloads runs the workloads one after another. A workload that fails is part of the
// results.
func (b *bench) runWorkloads(ctx context.Context) error {
	captures := b.Testbed.CaptureDir(b.ReadPath)
	if err := os.MkdirAll(captures, 0o755); err != nil {
		return fmt.Errorf("create work directory: %w", err)
	}
	l := &load.Loader{Target: b.Server.Target, Meter: b.Meter, Plan: b.report.Plan, CaptureDir: captures, Progress: b.Progress}
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
	unchanged, err := b.unchangedWorkload(ctx)
	if err != nil {
		return err
	}
	res, _, err := l.Run(ctx, unchanged)
	if err == nil {
		b.result.Results = append(b.result.Results, res)
	}
	return err
}

// workloads returns the requests for documents, each by one client. openapi-v3-group is the
// document of the first definition's group version.
func (b *bench) workloads() []load.Workload {
	groupURI := crd.OpenAPIV3Path + "/apis/" + b.Generator.Definition(0).Group + "/v1"
	workload := func(name, uri, accept, encoding string) load.Workload {
		return load.Workload{
			Name: name, Request: testbed.Request{URI: uri, Accept: accept, Encoding: encoding}, Body: load.AnyBody, Concurrency: 1,
		}
	}
	discovery := func(name, encoding string) load.Workload {
		w := workload(name, crd.DiscoveryPath, crd.AcceptDiscovery, encoding)
		w.Body, w.MinItems = load.JSONList, b.opts.Data.Groups
		return w
	}
	const gzip = testbed.EncodingGzip
	return []load.Workload{
		discovery("aggregated", ""),
		discovery("aggregated-gzip", gzip),
		workload("openapi-v3", crd.OpenAPIV3Path, testbed.AcceptJSON, ""),
		workload("openapi-v3-group", groupURI, testbed.AcceptJSON, ""),
		workload("openapi-v2", crd.OpenAPIV2Path, testbed.AcceptJSON, ""),
		workload("openapi-v2-gzip", crd.OpenAPIV2Path, testbed.AcceptJSON, gzip),
		workload("openapi-v2-protobuf", crd.OpenAPIV2Path, acceptOpenAPIProtobuf, ""),
		workload("openapi-v2-protobuf-gzip", crd.OpenAPIV2Path, acceptOpenAPIProtobuf, gzip), // as kubectl requests it
	}
}

// unchangedWorkload returns the request of a client that has aggregated discovery, with its
// ETag.
func (b *bench) unchangedWorkload(ctx context.Context) (load.Workload, error) {
	w := load.Workload{Name: "aggregated-304", Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery},
		Body: load.AnyBody, Concurrency: 1}
	req, err := b.Server.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return w, err
	}
	if _, w.ETag, err = b.Conn.FetchTagged(req); err == nil && w.ETag == "" {
		err = errors.New("discovery has no ETag")
	}
	return w, err
}
