package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// bench is one run of "bench replica".
type bench struct {
	opts      *options
	progress  *testbed.Progress
	report    *report
	bed       *testbed.Testbed
	writes    *writes
	setupsRun int // number of the present setup, for the names of logs
}

// run fills in the objects and measures all setups. A baseline with another number of informers than
// --informers comes first.
func (b *bench) run(ctx context.Context) error {
	if err := b.fill(ctx); err != nil {
		return fmt.Errorf("create objects: %w", err)
	}
	if setup, n := b.opts.baseline(); slices.Contains(b.opts.setups, setup) && !slices.Contains(b.opts.informers, n) {
		if err := b.measure(ctx, setup, n); err != nil {
			return err
		}
	}
	for _, informers := range b.opts.informers {
		for _, setup := range b.opts.setups {
			if err := b.measure(ctx, setup, informers); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill creates the objects through a server that serves nothing else. That server also makes the
// certificates of the upstream.
func (b *bench) fill(ctx context.Context) error {
	b.progress.Phase("creating %d objects of each of %d resources", b.opts.plan.Objects, len(b.writes.resources))
	s, err := b.bed.Start(ctx, testbed.ReadPathMillrace, "fill")
	if err != nil {
		return err
	}
	defer b.bed.End(ctx, s)
	writer, err := testbed.NewWriter(ctx, s.Target)
	if err != nil {
		return err
	}
	defer writer.Close()
	return b.writes.createObjects(ctx, writer)
}

// logName returns the name of the log of a process of the present setup.
func (b *bench) logName(setup, process string) string {
	return fmt.Sprintf("%02d-%s-%s", b.setupsRun, setup, process)
}

// measure measures one setup. A failure is part of the report, unless ctx has ended.
func (b *bench) measure(ctx context.Context, setup string, informers int) error {
	b.setupsRun++
	b.progress.Phase("measuring %s with %d informers", setup, informers)
	limited, cancel := context.WithTimeoutCause(ctx, b.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", b.opts.plan.Timeout))
	defer cancel()
	err := b.measureOnServers(limited, setup, informers)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.progress.Phase("failed: %v", err)
		b.report.Results = append(b.report.Results, result{Setup: setup, Informers: informers, Error: err.Error()})
	}
	return nil
}

// measureOnServers starts the servers of a setup, measures them and stops them. It adds the results
// to the report.
func (b *bench) measureOnServers(ctx context.Context, setup string, informers int) error {
	s, err := b.startServers(ctx, setup)
	if err != nil {
		return err
	}
	defer s.end(ctx)
	if setup != setupServe && b.report.Upstream == "" {
		b.report.Upstream = b.opts.readPath(setup) + " " + s.upstream.Target.Version(ctx)
	}
	writer, err := testbed.NewWriter(ctx, s.upstream.Target)
	if err != nil {
		return err
	}
	defer writer.Close()
	writer.Change = b.writes.change
	m := &measurement{bench: b, servers: s, writer: writer, result: result{Setup: setup, Informers: informers}}
	return s.explainExit(ctx, m.run(ctx))
}

// measurement measures one setup with one number of informers.
type measurement struct {
	*bench
	servers *servers
	writer  *testbed.Writer
	result  result
}

// run measures the writes without informers, unless the report has them already. Then it measures
// the opening of all informers, and then the events of writes.
func (m *measurement) run(ctx context.Context) error {
	if m.report.withoutReaders(m.result.Setup) == nil {
		if err := m.measureAlone(ctx); err != nil {
			return fmt.Errorf("write without informers: %w", err)
		}
	}
	f, err := m.measureOpening(ctx)
	if f != nil {
		defer f.close()
	}
	if err != nil {
		return fmt.Errorf("open informers: %w", err)
	}
	if err := m.measureEvents(ctx, f); err != nil {
		return err
	}
	m.report.Results = append(m.report.Results, m.result)
	return nil
}

// measureAlone measures writes that no informer reads.
func (m *measurement) measureAlone(ctx context.Context) error {
	res := result{Setup: m.result.Setup}
	if err := m.emit(ctx, m.opts.plan.Warmup); err != nil {
		return err
	}
	var err error
	res.costs, err = m.servers.measureCosts(func() error { return m.emitMeasured(ctx, &res) })
	if err == nil {
		m.report.Results = append(m.report.Results, res)
	}
	return err
}

// emit writes at the plan's rate for d. It returns immediately if d is 0.
func (m *measurement) emit(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return m.writer.Emit(ctx, m.opts.plan.writeCount(d), m.opts.plan.Rate)
}

// emitMeasured sends the measured writes, and sets Writes and WritesPerSec of res.
func (m *measurement) emitMeasured(ctx context.Context, res *result) error {
	res.Writes = m.opts.plan.writeCount(m.opts.plan.Duration)
	start := time.Now()
	err := m.emit(ctx, m.opts.plan.Duration)
	res.WritesPerSec = float64(res.Writes) / time.Since(start).Seconds()
	return err
}

// measureOpening opens all informers at once while writes go on. Clusters always have writes, and a
// replica proves by events that its objects are up to date. The caller must close the fleet, also
// after an error, unless the fleet is nil.
func (m *measurement) measureOpening(ctx context.Context) (f *fleet, err error) {
	before, err := m.scrapeAll(ctx)
	if err != nil {
		return nil, err
	}
	clients := m.result.Informers / len(m.writes.resources)
	m.progress.Step("opening %d informers on %d connections", m.result.Informers, clients)
	opening := &openCost{}
	opening.costs, err = m.servers.measureCosts(func() error {
		opening.Writes, err = m.writer.EmitDuring(ctx, m.opts.plan.Rate, func() error {
			start := time.Now()
			f, err = openFleet(ctx, m.servers.targets(), clients, m.opts.plan.Timeout)
			opening.Seconds = time.Since(start).Seconds()
			return err
		})
		return err
	})
	if err != nil {
		return f, err
	}
	if err := testbed.Sleep(ctx, m.opts.plan.Settle); err != nil {
		return f, err
	}
	after, err := m.scrapeAll(ctx)
	opening.Requests, opening.PassedOn = after.requests-before.requests, after.passedOn-before.passedOn
	m.result.Opening, m.result.Watches = opening, after.watches-m.servers.own.watches
	return f, err
}

// scrapeAll returns the counts of the upstream, with the requests that all replicas have passed on.
func (m *measurement) scrapeAll(ctx context.Context) (counts, error) {
	c, err := scrape(ctx, m.servers.upstream.Target)
	if err != nil {
		return c, err
	}
	c.passedOn = 0
	for r := range m.servers.replicas() {
		own, err := scrape(ctx, r.Target)
		if err != nil {
			return c, err
		}
		c.passedOn += own.passedOn
	}
	return c, nil
}

// arrivalTimeout bounds the time from the last write to the last event.
const arrivalTimeout = 30 * time.Second

// measureEvents measures writes and the events that informers receive. It closes the fleet.
func (m *measurement) measureEvents(ctx context.Context, f *fleet) error {
	if err := m.emit(ctx, m.opts.plan.Warmup); err != nil {
		return err
	}
	m.writes.reset()
	f.measuredSince.Store(time.Now().UnixNano())
	res := &m.result
	var err error
	res.costs, err = m.servers.measureCosts(func() error {
		if err := m.emitMeasured(f.ctx, res); err != nil {
			return err
		}
		return f.await(&f.events, m.writes.expectedEvents()*int64(len(f.clients)), arrivalTimeout, "events arrived")
	})
	if err != nil {
		return fmt.Errorf("measure events: %w", testbed.Cause(f.ctx, err))
	}
	f.close()
	if err := f.check(m.writes); err != nil {
		return err
	}
	spans, resumed, retries := f.totals()
	res.Clients, res.Events, res.Resumed, res.Retries = len(f.clients), len(spans), resumed, retries
	res.Millis = render.Summarize(spans)
	return nil
}
