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

// pollersPerConn is the number of pollers that share a connection. Servers allow more streams.
const pollersPerConn = 100

// pollPeriod is the time in which pollers read. Only requests from measured on count.
type pollPeriod struct{ start, measured, end time.Time }

// poll sends the request each time that it is due, from first until the end of the period. It skips
// times that pass while it waits for an answer.
func (p *stream) poll(ctx context.Context, first time.Time, every time.Duration, period pollPeriod) error {
	for due := first; due.Before(period.end); due = due.Add((time.Since(due)/every + 1) * every) {
		if err := testbed.Sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		now := time.Now()
		if !now.Before(period.end) {
			return nil
		}
		received := &p.answers
		if now.Before(period.measured) {
			received = &answers{}
		}
		if err := received.send(p.rt, p.req); err != nil {
			return fmt.Errorf("%s: %w", p.kind, testbed.Cause(ctx, err))
		}
	}
	return nil
}

// newPollers returns the pollers of a front. The caller must call closeAll, unless there is an
// error.
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

// measurePollers runs the pollers of a front, and measures their cost. If f is nil there are no
// pollers.
func (b *bench) measurePollers(ctx context.Context, f *front, res result) ([]result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pollers []stream
	if f != nil {
		var closeAll func()
		var err error
		if pollers, closeAll, err = b.newPollers(ctx, f.server.Target); err != nil {
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
	cost, err := b.measureCost(ctx, period)
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
		if f != nil {
			res.Reads = append(res.Reads, all.result())
		}
	}
	return []result{res}, nil
}

// sample is one reading of all processes.
type sample struct {
	time                             time.Time
	upstream, replicas, etcd, client time.Duration // CPU
	requests                         float64       // number of requests that the upstream has answered, without patches
}

// measureCost takes samples at the start and at the end of the measured part of a period.
func (b *bench) measureCost(ctx context.Context, period pollPeriod) (c cost, err error) {
	if err := testbed.Sleep(ctx, time.Until(period.measured)); err != nil {
		return c, err
	}
	before, err := b.takeSample(ctx)
	if err != nil {
		return c, err
	}
	if err := testbed.Sleep(ctx, time.Until(period.end)); err != nil {
		return c, err
	}
	after, err := b.takeSample(ctx)
	if err != nil {
		return c, err
	}
	seconds := after.time.Sub(before.time).Seconds()
	perSecond := func(d time.Duration) float64 { return render.Millis(d) / seconds }
	return cost{
		UpstreamCPUMillis: perSecond(after.upstream - before.upstream), UpstreamRequests: (after.requests - before.requests) / seconds,
		ReplicaCPUMillis: perSecond(after.replicas - before.replicas), EtcdCPUMillis: perSecond(after.etcd - before.etcd),
		ClientCPUMillis: perSecond(after.client - before.client),
	}, nil
}

// takeSample takes a reading of all processes.
func (b *bench) takeSample(ctx context.Context) (s sample, err error) {
	// Flow control may refuse the user of the pollers, but never the user of the writer.
	metrics, err := b.writer.Target.Metrics(ctx)
	if err != nil {
		return s, err
	}
	s.time, s.client = time.Now(), testbed.ClientCPU()
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
