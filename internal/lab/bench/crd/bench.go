package crd

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/tool/render"
)

// bench measures one server, from empty to many definitions and back.
//
// The server is restarted after the definitions are installed, unless it is the server of --at. The
// definitions alone then cost the memory: the garbage of installing them is gone, and no kind has
// been used yet.
type bench struct {
	*Fixture
	report *report
	result *serverReport
}

// AddResult implements Measurement.
func (b *bench) AddResult(failure error) {
	if failure != nil {
		b.result.Error = failure.Error()
	}
	b.report.Servers = append(b.report.Servers, *b.result)
}

// Run implements Measurement. The first step that fails ends it.
func (b *bench) Run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"start", b.startEmpty},
		{"install definitions", b.install},
		{"restart", b.restart},
		{"read OpenAPI", b.openAPI},
		{"list and write custom objects", b.useObjects},
		{"delete definitions", b.deleteDefinitions},
	} {
		if err := b.Step(ctx, step.name, step.run); err != nil {
			return err
		}
	}
	return nil
}

// startEmpty starts the server without definitions.
func (b *bench) startEmpty(ctx context.Context) (err error) {
	if err := b.Start(ctx, "serve"); err != nil {
		return err
	}
	b.result.StartMillis, b.result.Version = render.Millis(b.Server.Startup), b.Server.Target.Version(ctx)
	b.result.AfterStart, err = b.AwaitIdle(ctx)
	return err
}

// install fills the definitions in, and measures the time and CPU until all are listed and the
// samples answered. Then it creates the custom objects of --objects, which are not part of the
// cost.
func (b *bench) install(ctx context.Context) error {
	b.Meter.ResetPeak()
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	var cost installCost
	b.result.Install = &cost
	shape, start := b.opts.Shape(), time.Now()
	shape.Objects = 0
	for _, part := range []struct {
		seconds *float64 // set to the time since start
		run     func(context.Context) error
	}{
		{&cost.WrittenSeconds, func(ctx context.Context) error { return b.Fill(ctx, fill.Config{Shape: shape}) }},
		{&cost.ListedSeconds, func(ctx context.Context) error { return b.AwaitListed(ctx, shape.CRDs) }},
		{&cost.AnsweredSeconds, b.AwaitAnswered},
	} {
		if err := part.run(ctx); err != nil {
			return err
		}
		*part.seconds = time.Since(start).Seconds()
	}
	after, err := b.Meter.Read()
	if err != nil {
		return err
	}
	if b.result.AfterInstall, err = b.AwaitIdle(ctx); err != nil {
		return err
	}
	cost.CPUSeconds, cost.PeakBytes = (after.CPU - before.CPU).Seconds(), after.Peak
	cost.IdleCPUSeconds = (b.result.AfterInstall.cpu - before.CPU).Seconds()
	established, err := b.lastEstablished(ctx)
	if err != nil {
		return err
	}
	cost.EstablishedSeconds = max(0, established.Sub(start).Seconds())
	return b.createObjects(ctx)
}

// createObjects creates the custom objects of --objects.
func (b *bench) createObjects(ctx context.Context) error {
	if b.opts.Data.Objects == 0 {
		return nil
	}
	w, err := testbed.NewWriter(ctx, b.Server.Target)
	if err != nil {
		return err
	}
	defer w.Close()
	start := time.Now()
	err = w.Each(ctx, testbed.Turns(b.opts.Data.Objects), func(ctx context.Context, c *testbed.Conn, i int) error {
		_, err := b.Server.Target.WriteWithRetry(ctx, c, b.create(i%b.opts.Data.CRDs, fmt.Sprintf("bench-object-%d", i)), http.StatusCreated)
		return err
	})
	if err != nil {
		return fmt.Errorf("create custom objects: %w", err)
	}
	b.result.ObjectsPerSecond = float64(b.opts.Data.Objects) / time.Since(start).Seconds()
	return nil
}

// restart restarts the server, and measures the time until discovery lists all definitions.
func (b *bench) restart(ctx context.Context) (err error) {
	if err := b.Start(ctx, "serve-again"); err != nil {
		return err
	}
	cost := &restartCost{ReadySeconds: b.Server.Startup.Seconds()}
	start := time.Now().Add(-b.Server.Startup)
	if err := b.AwaitListed(ctx, b.opts.Data.CRDs); err != nil {
		return err
	}
	cost.ListedSeconds = time.Since(start).Seconds()
	b.result.Restart = cost
	b.result.AfterRestart, err = b.AwaitIdle(ctx)
	return err
}

// deleteDefinitions deletes the definitions with their objects, and measures the time until
// discovery lists none of them.
func (b *bench) deleteDefinitions(ctx context.Context) error {
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.Fill(ctx, fill.Config{Shape: fill.Shape{Seed: b.opts.Seed()}, Delete: true}); err != nil {
		return err
	}
	if err := b.AwaitListed(ctx, 0); err != nil {
		return err
	}
	took := time.Since(start)
	b.result.AfterDelete, err = b.AwaitIdle(ctx)
	if err != nil {
		return err
	}
	b.result.Delete = &deleteCost{Seconds: took.Seconds(), IdleCPUSeconds: (b.result.AfterDelete.cpu - before.CPU).Seconds()}
	return nil
}
