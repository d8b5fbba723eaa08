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
	// These steps do not depend on each other.
	return errors.Join(b.Step(ctx, "send requests", b.runWorkloads), b.Step(ctx, "discover as client-go does", b.discoverAll),
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
// kind.
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

// workloads returns the requests for documents, each by one client. The document of one group
// version has the group of the first definition.
func (b *bench) workloads() []load.Workload {
	groupURI := crd.OpenAPIV3Path + "/apis/" + b.Generator.Definition(0).Group + "/v1"
	all := []load.Workload{
		{Name: "aggregated", Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery}, Body: load.JSONList, MinItems: b.opts.Data.Groups},
		{Name: "aggregated-gzip", Body: load.JSONList, MinItems: b.opts.Data.Groups,
			Request: testbed.Request{URI: crd.DiscoveryPath, Accept: crd.AcceptDiscovery, Encoding: testbed.EncodingGzip}},
		{Name: "openapi-v3", Request: testbed.Request{URI: crd.OpenAPIV3Path, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v3-group", Request: testbed.Request{URI: groupURI, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v2", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: testbed.AcceptJSON}},
		{Name: "openapi-v2-gzip", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: testbed.AcceptJSON, Encoding: testbed.EncodingGzip}},
		{Name: "openapi-v2-protobuf", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: acceptOpenAPIProtobuf}},
		{Name: "openapi-v2-protobuf-gzip", Request: testbed.Request{URI: crd.OpenAPIV2Path, Accept: acceptOpenAPIProtobuf, Encoding: testbed.EncodingGzip}}, // as kubectl requests it
	}
	for i := range all {
		all[i].Concurrency = 1
		if all[i].MinItems == 0 {
			all[i].Body = load.AnyBody
		}
	}
	return all
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
