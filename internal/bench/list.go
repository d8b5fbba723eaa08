package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func newListCommand(cfg Config) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Measure LIST and GET",
		Long: `Measures what LIST and GET requests cost a server.

By default it measures the server of a kubeconfig. With --compare it starts
this binary with either read path in turn over one data directory that it
fills, and a server that writes the same bytes from memory: the floor. With
--external-etcd both read paths serve out of one etcd in a process of its own.`,
		Example: `  millrace bench list --workloads=pods-json,pod-get
  millrace bench list --compare --nodes 1000 --pods 10000 -o json > report.json
  millrace bench list --compare --external-etcd --workloads=default,list-rss
  millrace bench list --compare --external-etcd --workloads=list-stalled
  millrace bench list --from report.json -o svg > report.svg`,
	}
	measuring{
		help:     func() (string, bool) { return workloadHelp(), slices.Contains(o.workloads, "help") },
		validate: func() error { return o.validate(cmd.Flags().Changed) },
		from:     &o.from, output: &o.output, empty: func() saved { return &report{} },
		measure: func(ctx context.Context, to streams) error { return runList(ctx, cfg, o, to) },
	}.by(cmd)
	o.addFlags(cmd.Flags())
	return cmd
}

// runList prints the report also when some workloads failed, and then fails.
func runList(ctx context.Context, cfg Config, o *listOptions, to streams) error {
	b := &listBench{opts: o, log: newProgress(to.err), report: newReport(o)}
	var err error
	if o.compare {
		err = b.compare(ctx, cfg)
	} else {
		err = b.single(ctx)
	}
	if err != nil {
		return err
	}
	b.report.check()
	return conclude(b.report.write(to.out, o.output), b.report.failures())
}

func newReport(o *listOptions) *report {
	r := &report{Started: time.Now(), Machine: thisMachine(), Protocol: "HTTP/2",
		ResourceVersions: o.resourceVersions, Plan: o.plan}
	r.ExternalEtcd = o.externalEtcd
	if o.http1 {
		r.Protocol = "HTTP/1.1"
	}
	if o.plan.Requests > 0 {
		r.Plan.Duration = 0
	}
	return r
}

// listBench is one run of "bench list".
type listBench struct {
	opts   *listOptions
	log    *progress
	report *report

	subjectFound bool // report.Subject holds what all servers are asked for
}

// single measures the server of a kubeconfig.
func (b *listBench) single(ctx context.Context) error {
	cfg, err := kubeconfigAt(b.opts.kubeconfigPath())
	if err != nil {
		return err
	}
	t, err := newTarget(targetConfig{rest: cfg, http1: b.opts.http1})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return fmt.Errorf("create temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	l := &loader{target: t, plan: b.opts.plan, captures: dir, log: b.log}
	if b.opts.serverPID > 0 {
		l.meter = newMeter(b.opts.serverPID)
	}
	b.log.phase("measuring %s", t.base)
	s := serverReport{Name: "server", Version: t.version(ctx)}
	for _, section := range sections() {
		if !b.opts.chosen.sections[section.name] {
			continue
		}
		if err := section.run(b, ctx, l, &s); err != nil {
			return err
		}
	}
	if _, err := b.measure(ctx, l, &s); err != nil {
		return err
	}
	b.report.Servers = append(b.report.Servers, s)
	return nil
}

// measurable is a workload that a server has answered, for the floor.
type measurable struct {
	workload workload
	capture  capture
}

// onFloor is the workload that asks the floor for the same bytes.
func (m measurable) onFloor() workload {
	w := m.workload
	w.uri = m.capture.uri()
	return w
}

// measure runs all workloads against one server. A workload that fails is in
// the report; only what ends the run is returned as an error.
func (b *listBench) measure(ctx context.Context, l *loader, s *serverReport) ([]measurable, error) {
	if l.meter != nil {
		idle, err := l.meter.read()
		if err != nil {
			return nil, err
		}
		s.IdleBytes = idle.rss
	}
	workloads, err := b.workloads(ctx, l.target)
	if err != nil {
		return nil, err
	}
	var done []measurable
	for _, w := range workloads {
		res, first, err := l.run(ctx, w)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			b.log.phase("failed: %v", err)
			s.Results = append(s.Results, result{Workload: w.name, URI: w.uri, Error: err.Error()})
			continue
		}
		s.Results = append(s.Results, res)
		done = append(done, measurable{w, first})
	}
	return done, nil
}

// workloads completes the chosen specs for this cluster.
func (b *listBench) workloads(ctx context.Context, t *target) ([]workload, error) {
	chosen := b.opts.chosen.specs
	if len(chosen) > 0 && !b.subjectFound {
		var err error
		if b.report.Subject, err = findSubject(ctx, t, b.opts.labelSelector); err != nil {
			return nil, err
		}
		b.subjectFound = true
	}
	var all []workload
	for i, rv := range b.opts.resourceVersions {
		for _, s := range chosen {
			if s.paged && i > 0 {
				continue // the same again
			}
			w, err := s.workload(b.report.Subject, rv)
			if err != nil {
				return nil, err
			}
			w.minItems = s.expected(b.report.Data)
			all = append(all, w)
		}
	}
	return all, nil
}
