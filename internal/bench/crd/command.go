package crd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
	"github.com/millrace/millrace/internal/fill"
)

func NewCommand(cfg testbed.Program) *cobra.Command {
	o := &Options{}
	cmd := &cobra.Command{
		Use:   "crd",
		Short: "Measure custom resource definitions",
		Long: `Measures what custom resource definitions cost a server: memory and goroutines
when idle, with the definitions, started again over them, after OpenAPI was read,
after custom objects were used and after all was deleted; the time and CPU of
installing and deleting definitions; the time of a start; and LISTs and writes of
custom objects, the first ones of a kind apart, later ones in rounds over all of these.

It starts this binary itself, over an empty data directory: with --compare with
either read path in turn, else with the first. The definitions are those of
"fill" and are installed without a client's rate limit.

Memory and goroutines are read when the server has been left alone for --rest
and was idle at the end of it. "All listed" is when aggregated discovery has
every resource, "answered" when the objects of --samples of them can be listed
too. The last LISTs and writes go to kinds that nobody has asked the server for
since it started; writes to other ones than LISTs.`,
		Example: `  millrace bench crd --compare --crds 2000 --groups 200
  millrace bench crd --compare --external-etcd --crds 190 --groups 190 --properties 5000
  millrace bench crd --crds 50 --groups 10 --rest 5s
  millrace bench crd --from report.json -o markdown
  millrace bench crd --from report.json -o svg > report.svg`,
	}
	testbed.Runner{
		Validate: o.Validate,
		From:     &o.From, Output: &o.Output, NewReport: func() testbed.Report { return &report{} },
		Measure: func(ctx context.Context, to testbed.Streams) error { return execute(ctx, cfg, o, to) },
	}.Bind(cmd)
	o.AddFlags(cmd.Flags())
	return cmd
}

// execute prints the report also when a server failed or it is interrupted, and then
// fails.
func execute(ctx context.Context, cfg testbed.Program, o *Options, to testbed.Streams) error {
	report := &report{Started: time.Now(), Machine: testbed.ThisMachine(), Plan: o.Plan, Data: o.Data, ExternalEtcd: o.ExternalEtcd}
	err := o.EachPath(ctx, cfg, testbed.NewProgress(to.Err), func(r *Runner) Measurement {
		return &bench{r, report, &serverReport{Name: r.ReadPath}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.note()
	return cmp.Or(err, testbed.ResultError(report.Write(to.Out, o.Output), report.failures()))
}

// bench is the life of one server.
//
// It starts anew with the definitions. So the memory after that start is that of
// the definitions alone, without the garbage of installing them, and no kind has
// been used by then.
type bench struct {
	*Runner
	report *report
	result *serverReport
}

func (b *bench) Done(failure error) {
	if failure != nil {
		b.result.Error = failure.Error()
	}
	b.report.Servers = append(b.report.Servers, *b.result)
}

func (b *bench) Run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"start", b.startEmpty},
		{"install definitions", b.install},
		{"start with them", b.restart},
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

func (b *bench) startEmpty(ctx context.Context) (err error) {
	if err := b.Start(ctx, "serve"); err != nil {
		return err
	}
	b.result.StartMillis, b.result.Version = render.Millis(b.Server.Startup), b.Server.Target.Version(ctx)
	b.result.Idle, err = b.AwaitIdle(ctx)
	return err
}

func (b *bench) install(ctx context.Context) error {
	b.Meter.ResetPeak()
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	var cost installCost
	b.result.Install = &cost
	shape, start := b.opts.Data.Shape(), time.Now()
	shape.Objects = 0
	for _, part := range []struct {
		seconds *float64
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
	if b.result.Installed, err = b.AwaitIdle(ctx); err != nil {
		return err
	}
	cost.CPUSeconds, cost.PeakBytes = (after.CPU - before.CPU).Seconds(), after.Peak
	cost.IdleCPUSeconds = (b.result.Installed.cpu - before.CPU).Seconds()
	established, err := b.established(ctx)
	if err != nil {
		return err
	}
	cost.EstablishedSeconds = max(0, established.Sub(start).Seconds())
	return b.objects(ctx)
}

// objects creates those that were asked for.
func (b *bench) objects(ctx context.Context) error {
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

func (b *bench) restart(ctx context.Context) (err error) {
	if err := b.Start(ctx, "serve-again"); err != nil {
		return err
	}
	again := &restartCost{ReadySeconds: b.Server.Startup.Seconds()}
	start := time.Now().Add(-b.Server.Startup)
	if err := b.AwaitListed(ctx, b.opts.Data.CRDs); err != nil {
		return err
	}
	again.ListedSeconds = time.Since(start).Seconds()
	b.result.Restart = again
	b.result.Restarted, err = b.AwaitIdle(ctx)
	return err
}

func (b *bench) deleteDefinitions(ctx context.Context) error {
	before, err := b.Meter.Read()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.Fill(ctx, fill.Config{Shape: fill.Shape{Seed: seed}, Delete: true}); err != nil {
		return err
	}
	if err := b.AwaitListed(ctx, 0); err != nil {
		return err
	}
	took := time.Since(start)
	b.result.Deleted, err = b.AwaitIdle(ctx)
	if err != nil {
		return err
	}
	b.result.Delete = &deleteCost{Seconds: took.Seconds(), IdleCPUSeconds: (b.result.Deleted.cpu - before.CPU).Seconds()}
	return nil
}
