package quiet

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// pollersPerConn is how many pollers share a connection: fewer than the streams that servers
// allow.
const pollersPerConn = 100

// pollPeriod says when pollers read, and of when their answers count.
type pollPeriod struct{ start, measured, end time.Time }

// poll sends the request each time that it is due, until the end. Requests that are due while an
// answer is awaited are left out.
func (p *stream) poll(ctx context.Context, first time.Time, every time.Duration, period pollPeriod) error {
	for due := first; due.Before(period.end); due = due.Add((time.Since(due)/every + 1) * every) {
		if err := testbed.Sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		now := time.Now()
		if !now.Before(period.end) {
			return nil
		}
		to := &p.answers
		if now.Before(period.measured) {
			to = &answers{}
		}
		if err := to.send(p.rt, p.req); err != nil {
			return fmt.Errorf("%s: %w", p.kind, testbed.Cause(ctx, err))
		}
	}
	return nil
}

// newPollers are those of a front. The caller must call closeAll.
func (b *bench) newPollers(ctx context.Context, t *testbed.Target) (pollers []stream, closeAll func(), err error) {
	var transports []*http.Transport
	closeAll = func() {
		for _, t := range transports {
			t.CloseIdleConnections()
		}
	}
	var rt http.RoundTripper
	for i := range 2 * b.opts.plan.Pollers {
		if i%pollersPerConn == 0 {
			var transport *http.Transport
			if transport, rt, err = t.NewTransport(0); err != nil {
				closeAll()
				return nil, nil, err
			}
			transports = append(transports, transport)
		}
		p := stream{kind: listNamespaces}
		uri := namespacesPath
		if i%2 == 1 {
			p.kind, uri = getNamespace, namespacesPath+"/"+objectName(i/2%b.opts.plan.Namespaces)
		}
		p.rt = rt
		if p.req, err = t.NewRequest(ctx, testbed.Request{URI: uri, Accept: testbed.AcceptJSON}); err != nil {
			closeAll()
			return nil, nil, err
		}
		pollers = append(pollers, p)
	}
	return pollers, closeAll, nil
}

// poll measures what the pollers of a front cost. A front of nil has none.
func (b *bench) poll(ctx context.Context, at *front, res result) ([]result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pollers []stream
	if at != nil {
		var closeAll func()
		var err error
		if pollers, closeAll, err = b.newPollers(ctx, at.server.Target); err != nil {
			return nil, err
		}
		defer closeAll()
	}
	var group sync.WaitGroup
	defer group.Wait()
	period := pollPeriod{start: time.Now()}
	period.measured = period.start.Add(b.opts.plan.Warmup)
	period.end = period.measured.Add(b.opts.plan.Duration)
	for i := range pollers {
		group.Go(func() {
			first := period.start.Add(b.opts.plan.Every * time.Duration(i) / time.Duration(len(pollers)))
			if err := pollers[i].poll(ctx, first, b.opts.plan.Every, period); err != nil {
				fail(err)
			}
		})
	}
	cost, err := b.costOf(ctx, period)
	if err != nil {
		fail(err)
		return nil, err
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	res.Cost = &cost
	for _, kind := range []string{listNamespaces, getNamespace} {
		all := stream{kind: kind}
		for i := range pollers {
			if pollers[i].kind == kind {
				all.answers.add(&pollers[i].answers)
			}
		}
		if at != nil {
			res.Reads = append(res.Reads, all.result())
		}
	}
	return []result{res}, nil
}

// sample is one reading of all processes.
type sample struct {
	at                               time.Time
	upstream, replicas, etcd, client time.Duration
	requests                         float64 // that the upstream has answered, without patches
}

// costOf samples at the beginning and at the end of what is measured.
func (b *bench) costOf(ctx context.Context, period pollPeriod) (c cost, err error) {
	if err := testbed.Sleep(ctx, time.Until(period.measured)); err != nil {
		return c, err
	}
	before, err := b.sample(ctx)
	if err != nil {
		return c, err
	}
	if err := testbed.Sleep(ctx, time.Until(period.end)); err != nil {
		return c, err
	}
	after, err := b.sample(ctx)
	if err != nil {
		return c, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	each := func(d time.Duration) float64 { return render.Millis(d) / seconds }
	return cost{
		UpstreamCPU: each(after.upstream - before.upstream), UpstreamRequests: (after.requests - before.requests) / seconds,
		ReplicaCPU: each(after.replicas - before.replicas), EtcdCPU: each(after.etcd - before.etcd), ClientCPU: each(after.client - before.client),
	}, nil
}

func (b *bench) sample(ctx context.Context) (s sample, err error) {
	// The writer's user is never refused, as that of the pollers may be.
	metrics, err := b.writer.Target.Metrics(ctx)
	if err != nil {
		return s, err
	}
	s.at, s.client = time.Now(), testbed.ClientCPU()
	testbed.ParseMetrics(metrics, func(m testbed.Metric) {
		if m.Name == "apiserver_request_total" && m.Label("verb") != http.MethodPatch {
			s.requests += m.Value
		}
	})
	for i, f := range b.fronts {
		use, err := f.server.Meter().Read()
		if err != nil {
			return s, err
		}
		if i == 0 {
			s.upstream = use.CPU
		} else {
			s.replicas += use.CPU
		}
	}
	use, err := testbed.NewMeter(b.bed.EtcdPID()).Read()
	s.etcd = use.CPU
	return s, err
}
