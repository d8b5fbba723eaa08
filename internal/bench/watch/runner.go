package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/bench/floor"
	"github.com/millrace/millrace/internal/bench/render"
	"github.com/millrace/millrace/internal/bench/testbed"
	"github.com/millrace/millrace/internal/fill"
)

// lateArrival is how long after the last write events may arrive.
const lateArrival = time.Minute

// runner runs the event workloads against one server, or the floor.
type runner struct {
	target *testbed.Target
	meter  *testbed.Meter // nil: unknown process
	plan   plan
	log    *testbed.Progress
	pods   []testbed.PodSample // one of each node; for watchNodes
	writer *testbed.Writer     // nil: the floor

	alone   map[writeKey]float64 // CPU of a write without watchers, in µs
	created map[string]int       // config maps, by set
}

// writeKey is what the cost of a write depends on.
type writeKey struct {
	kind    watchedObjects
	objects int
}

func (s eventWorkload) aloneKey() writeKey { return writeKey{s.kind, s.objects()} }

// newRunner connects the writer. The caller must call close.
func newRunner(ctx context.Context, t *testbed.Target, base runner) (*runner, error) {
	w, err := testbed.NewWriter(ctx, t)
	if err != nil {
		return nil, err
	}
	base.target, base.writer = t, w
	base.alone, base.created = map[writeKey]float64{}, map[string]int{}
	return &base, nil
}

func (r *runner) close() {
	if r.writer != nil {
		r.writer.Close()
	}
}

// run measures one workload.
//
// Nothing is under way when the measured writes begin, and all their events
// have arrived when it ends, so that CPU and events belong together exactly.
func (r *runner) run(ctx context.Context, s eventWorkload) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", s.name, r.plan.Timeout))
	defer cancel()
	r.log.Step("%s, %d watchers", s.name, s.watchers)
	events, resourceVersion, err := r.prepare(ctx, s)
	if err != nil {
		return result{}, testbed.Cause(ctx, err)
	}
	t := r.target
	if s.http1 {
		if t, err = testbed.NewTarget(testbed.TargetConfig{REST: t.Config.REST, HTTP1: true}); err != nil {
			return result{}, err
		}
	}
	c := newWatcherGroup(ctx, t, s.encoding)
	defer c.close()
	before, err := r.meter.ReadIfKnown()
	if err != nil {
		return result{}, err
	}
	start := time.Now()
	if err := r.gather(c, s, s.uris(r.pods, resourceVersion)); err != nil {
		return result{}, fmt.Errorf("open watches: %w", err)
	}
	opened := time.Since(start)
	if err := testbed.Sleep(c.ctx, r.plan.Settle); err != nil {
		return result{}, err
	}
	after, err := r.meter.ReadIfKnown()
	if err != nil {
		return result{}, err
	}
	warm := r.plan.events(s, r.plan.Warmup)
	if _, err := r.emit(c, s, events, warm); err != nil {
		return result{}, fmt.Errorf("warm up: %w", err)
	}
	res, err := r.measure(c, s, events)
	res.OpenSeconds = opened.Seconds()
	if res.Server != nil {
		res.Server.OpenMicros = micros(after.CPU-before.CPU) / float64(s.watchers)
	}
	return res, err
}

// gather opens the watches.
func (r *runner) gather(c *watcherGroup, s eventWorkload, uris []string) error {
	if s.stalled {
		last := len(uris) - 1
		if err := c.open(uris[:last], min(s.conns, last)); err != nil {
			return err
		}
		return c.stall(uris[last])
	}
	return c.open(uris, min(s.conns, len(uris)))
}

// emit makes events and waits for them to arrive everywhere.
func (r *runner) emit(c *watcherGroup, s eventWorkload, from source, events int) (took time.Duration, err error) {
	wanted := c.arrivedEvents.Load() + int64(events)*int64(s.fanOut())
	start := time.Now()
	if err := from.Emit(c.ctx, events, s.rate); err != nil {
		return 0, err
	}
	took = time.Since(start)
	return took, c.await(wanted, lateArrival)
}

func (r *runner) measure(c *watcherGroup, s eventWorkload, from source) (result, error) {
	if r.meter != nil {
		r.meter.ResetPeak()
	}
	before, err := r.meter.ReadIfKnown()
	if err != nil {
		return result{}, err
	}
	clientBefore, writes := testbed.ClientCPU(), r.plan.events(s, r.plan.Duration)
	c.measuredSince.Store(time.Now().UnixNano())
	took, err := r.emit(c, s, from, writes)
	if err != nil {
		return result{}, err
	}
	after, err := r.meter.ReadIfKnown()
	if err != nil {
		return result{}, err
	}
	clientUsed := testbed.ClientCPU() - clientBefore
	c.close()
	spans, bytes := c.sum()
	wanted := writes * s.fanOut()
	if len(spans) != wanted {
		return result{}, fmt.Errorf("%d events arrived, %d were sent: some came twice or without their stamp", len(spans), wanted)
	}
	res := result{
		Workload: s.name, Watchers: s.watchers, Connections: len(c.connections), HTTP1: s.http1, Encoding: s.encoding,
		Writes: writes, WritesPerSec: float64(writes) / took.Seconds(), Events: wanted,
		BytesPerEvent: float64(bytes) / float64(wanted), Millis: render.Summarize(spans),
		ClientMicros: micros(clientUsed) / float64(wanted),
	}
	if r.meter != nil {
		res.Server = newServerCost(after.CPU-before.CPU, r.alone[s.aloneKey()], res)
		res.Server.RSSBytes, res.Server.PeakBytes = after.RSS, after.Peak
	}
	return res, nil
}

// newServerCost shares out CPU time. alone is that of a write without watchers.
func newServerCost(cpu time.Duration, alone float64, res result) *serverCost {
	cost := &serverCost{
		CPUSeconds: cpu.Seconds(), AloneMicros: alone,
		WriteMicros: micros(cpu) / float64(res.Writes), EventMicros: micros(cpu) / float64(res.Events),
	}
	cost.NetMicros = max(0, micros(cpu)-alone*float64(res.Writes)) / float64(res.Events)
	return cost
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// prepare makes what is watched, measures writing it alone, and returns the
// source of events and the resource version to watch from.
func (r *runner) prepare(ctx context.Context, s eventWorkload) (from source, resourceVersion string, err error) {
	if s.kind == watchFloor {
		return floor.Emitter{Target: r.target}, "", nil
	}
	path := configMapsPath
	if s.kind == watchNodes {
		path = "/api/v1/pods"
		if len(r.pods) < s.watchers {
			return nil, "", fmt.Errorf("watch pods of %d nodes: there are pods of fill on %d only", s.watchers, len(r.pods))
		}
		r.writer.Change = podChanges(r.pods[:s.watchers])
	} else {
		if lack := s.objects() - r.created[s.set()]; lack > 0 {
			if err := createConfigMaps(ctx, r.writer, s.set(), s.objects()); err != nil {
				return nil, "", fmt.Errorf("create config maps: %w", err)
			}
			r.created[s.set()] = s.objects()
		}
		r.writer.Change = configMapChanges(s.set(), s.objects())
	}
	if err := r.measureAlone(ctx, s); err != nil {
		return nil, "", fmt.Errorf("write without watchers: %w", err)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err = r.target.Get(ctx, path+"?limit=1", &list)
	return r.writer, list.Metadata.ResourceVersion, err
}

// measureAlone measures the writes without watchers, once for all workloads
// that have the same.
func (r *runner) measureAlone(ctx context.Context, s eventWorkload) error {
	if _, done := r.alone[s.aloneKey()]; done || r.meter == nil {
		return nil
	}
	if err := testbed.Sleep(ctx, r.plan.Settle); err != nil { // objects may just have been created
		return err
	}
	if err := r.writer.Emit(ctx, r.plan.events(s, r.plan.Warmup), s.rate); err != nil {
		return err
	}
	before, err := r.meter.Read()
	if err != nil {
		return err
	}
	writes := r.plan.events(s, r.plan.Duration/3)
	if err := r.writer.Emit(ctx, writes, s.rate); err != nil {
		return err
	}
	after, err := r.meter.Read()
	r.alone[s.aloneKey()] = micros(after.CPU-before.CPU) / float64(writes)
	return err
}

// sample writes the event of an object of watchAll to where a floor finds it.
func (r *runner) sample(ctx context.Context, dir string) error {
	object, err := r.object(ctx)
	if err != nil {
		return fmt.Errorf("get a config map for the floor: %w", err)
	}
	return floor.WriteEvent(dir, object)
}

// object is a config map as the server has it after a write.
func (r *runner) object(ctx context.Context) ([]byte, error) {
	if err := createConfigMaps(ctx, r.writer, "all", 1); err != nil {
		return nil, err
	}
	w := r.writer.Single(configMapChanges("all", 1))
	if err := w.Emit(ctx, 1, 1); err != nil {
		return nil, err
	}
	return w.Get(ctx, testbed.Request{URI: configMapsPath + "/" + configMapName("all", 0), Accept: testbed.AcceptJSON})
}

// findPods returns a pod of each node, of those that fill has made: others are
// not ours to write.
func findPods(ctx context.Context, t *testbed.Target) ([]testbed.PodSample, error) {
	var list struct {
		Items []testbed.PodSample `json:"items"`
	}
	if err := t.Get(ctx, "/api/v1/pods?resourceVersion=0&labelSelector="+fill.LabelSeed, &list); err != nil {
		return nil, fmt.Errorf("find pods: %w", err)
	}
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(list.Items, func(p testbed.PodSample) bool {
		again := seen[p.Spec.NodeName]
		seen[p.Spec.NodeName] = true
		return again
	}), nil
}

// source makes events. Emit makes some of them at a rate a second and returns
// when the last was acknowledged.
type source interface {
	Emit(ctx context.Context, events int, rate float64) error
}
