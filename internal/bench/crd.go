package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/fill"
)

func newCRDCommand(cfg Config) *cobra.Command {
	o := &crdOptions{}
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
	measuring{
		validate: o.validate,
		from:     &o.from, output: &o.output, empty: func() saved { return &crdReport{} },
		measure: func(ctx context.Context, to streams) error { return runCRD(ctx, cfg, o, to) },
	}.by(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// runCRD prints the report also when a server failed or it is interrupted, and then
// fails.
func runCRD(ctx context.Context, cfg Config, o *crdOptions, to streams) error {
	report := &crdReport{Started: time.Now(), Machine: thisMachine(), Plan: o.plan, Data: o.data, ExternalEtcd: o.externalEtcd}
	err := o.eachPath(ctx, cfg, newProgress(to.err), func(r *crdRun) crdMeasurement {
		return &crdBench{r, report, &crdServer{Name: r.path}}
	})
	if len(report.Servers) == 0 {
		return err
	}
	report.note()
	return cmp.Or(err, conclude(report.write(to.out, o.output), report.failures()))
}

// crdBench is the life of one server.
//
// It starts anew with the definitions. So the memory after that start is that of
// the definitions alone, without the garbage of installing them, and no kind has
// been used by then.
type crdBench struct {
	*crdRun
	report *crdReport
	to     *crdServer
}

func (b *crdBench) done(failure error) {
	if failure != nil {
		b.to.Error = failure.Error()
	}
	b.report.Servers = append(b.report.Servers, *b.to)
}

func (b *crdBench) run(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"start", b.begin},
		{"install definitions", b.install},
		{"start with them", b.restart},
		{"read OpenAPI", b.openAPI},
		{"list and write custom objects", b.use},
		{"delete definitions", b.remove},
	} {
		if err := b.step(ctx, step.name, step.run); err != nil {
			return err
		}
	}
	return nil
}

func (b *crdBench) begin(ctx context.Context) (err error) {
	if err := b.start(ctx, "serve"); err != nil {
		return err
	}
	b.to.StartMillis, b.to.Version = millis(b.server.startup), b.server.target.version(ctx)
	b.to.Idle, err = b.settled(ctx)
	return err
}

func (b *crdBench) install(ctx context.Context) error {
	b.meter.resetPeak()
	before, err := b.meter.read()
	if err != nil {
		return err
	}
	var cost installCost
	b.to.Install = &cost
	shape, start := b.opts.data.shape(), time.Now()
	shape.Objects = 0
	for _, part := range []struct {
		seconds *float64
		run     func(context.Context) error
	}{
		{&cost.WrittenSeconds, func(ctx context.Context) error { return b.fill(ctx, fill.Config{Shape: shape}) }},
		{&cost.ListedSeconds, func(ctx context.Context) error { return b.awaitListed(ctx, shape.CRDs) }},
		{&cost.AnsweredSeconds, b.awaitAnswered},
	} {
		if err := part.run(ctx); err != nil {
			return err
		}
		*part.seconds = time.Since(start).Seconds()
	}
	after, err := b.meter.read()
	if err != nil {
		return err
	}
	if b.to.Installed, err = b.settled(ctx); err != nil {
		return err
	}
	cost.CPUSeconds, cost.PeakBytes = (after.cpu - before.cpu).Seconds(), after.peak
	cost.IdleCPUSeconds = (b.to.Installed.cpu - before.cpu).Seconds()
	established, err := b.established(ctx)
	if err != nil {
		return err
	}
	cost.EstablishedSeconds = max(0, established.Sub(start).Seconds())
	return b.objects(ctx)
}

// objects creates those that were asked for.
func (b *crdBench) objects(ctx context.Context) error {
	if b.opts.data.Objects == 0 {
		return nil
	}
	w, err := newWriter(ctx, b.server.target)
	if err != nil {
		return err
	}
	defer w.close()
	start := time.Now()
	err = w.each(ctx, upTo(b.opts.data.Objects), func(ctx context.Context, c *conn, i int) error {
		_, err := b.server.target.writePatiently(ctx, c, b.create(i%b.opts.data.CRDs, fmt.Sprintf("bench-object-%d", i)), http.StatusCreated)
		return err
	})
	if err != nil {
		return fmt.Errorf("create custom objects: %w", err)
	}
	b.to.ObjectsPerSecond = float64(b.opts.data.Objects) / time.Since(start).Seconds()
	return nil
}

func (b *crdBench) restart(ctx context.Context) (err error) {
	if err := b.start(ctx, "serve-again"); err != nil {
		return err
	}
	again := &restartCost{ReadySeconds: b.server.startup.Seconds()}
	start := time.Now().Add(-b.server.startup)
	if err := b.awaitListed(ctx, b.opts.data.CRDs); err != nil {
		return err
	}
	again.ListedSeconds = time.Since(start).Seconds()
	b.to.Restart = again
	b.to.Restarted, err = b.settled(ctx)
	return err
}

func (b *crdBench) remove(ctx context.Context) error {
	before, err := b.meter.read()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.fill(ctx, fill.Config{Shape: fill.Shape{Seed: crdSeed}, Delete: true}); err != nil {
		return err
	}
	if err := b.awaitListed(ctx, 0); err != nil {
		return err
	}
	took := time.Since(start)
	b.to.Deleted, err = b.settled(ctx)
	if err != nil {
		return err
	}
	b.to.Delete = &deleteCost{Seconds: took.Seconds(), IdleCPUSeconds: (b.to.Deleted.cpu - before.cpu).Seconds()}
	return nil
}
