package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/tool/render"
)

// arrivalTimeout bounds the time from the last acknowledgement of a write to the last event.
const arrivalTimeout = time.Minute

// runner runs the event workloads against one server, or the floor.
type runner struct {
	target   *testbed.Target
	meter    *testbed.Meter
	plan     plan
	progress *testbed.Progress
	pods     []testbed.PodSample // one pod of each node, for workloads that write to pods
	writer   *testbed.Writer     // nil: the target is the floor

	writeMicrosAlone map[writeKey]float64 // CPU for a write without watchers
	created          map[string]int       // number of existing config maps, by set
}

// writeKey has the properties of a workload on which the cost of its writes depends.
type writeKey struct {
	kind    watchedObjects
	objects int
}

func (s eventWorkload) aloneKey() writeKey { return writeKey{s.kind, s.objects()} }

// newRunner returns a runner with the fields of base, which connects a writer to a server. The
// caller must call close.
func newRunner(ctx context.Context, t *testbed.Target, base runner) (*runner, error) {
	w, err := testbed.NewWriter(ctx, t)
	if err != nil {
		return nil, err
	}
	base.target, base.writer = t, w
	base.writeMicrosAlone, base.created = map[writeKey]float64{}, map[string]int{}
	return &base, nil
}

func (r *runner) close() { r.writer.Close() }

// run measures one workload.
//
// No event is in flight when the measured writes start, and all their events have arrived when the
// measurement ends. The CPU therefore belongs to exactly these events.
func (r *runner) run(ctx context.Context, s eventWorkload) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.plan.Timeout,
		fmt.Errorf("run %s: not done within --timeout=%s", s.name, r.plan.Timeout))
	defer cancel()
	r.progress.Step("%s, %d watchers", s.name, s.watchers)
	source, resourceVersion, err := r.prepare(ctx, s)
	if err != nil {
		return result{}, testbed.Cause(ctx, err)
	}
	t := r.target
	if s.http1 {
		if t, err = testbed.NewTarget(testbed.TargetConfig{REST: t.Config.REST, HTTP1: true}); err != nil {
			return result{}, err
		}
	}
	g := newWatcherGroup(ctx, t, streamForm{accept: s.accept, encoding: s.encoding})
	defer g.close()
	before, err := r.meter.Read()
	if err != nil {
		return result{}, err
	}
	start := time.Now()
	if err := r.openWatches(g, s, s.uris(r.pods, resourceVersion)); err != nil {
		return result{}, fmt.Errorf("open watches: %w", err)
	}
	opened := time.Since(start)
	if err := testbed.Sleep(g.ctx, r.plan.Settle); err != nil {
		return result{}, err
	}
	after, err := r.meter.Read()
	if err != nil {
		return result{}, err
	}
	warm := r.plan.eventCount(s, r.plan.Warmup)
	if _, err := r.emitAndAwait(g, s, source, warm); err != nil {
		return result{}, fmt.Errorf("warm up: %w", err)
	}
	res, err := r.measure(g, s, source)
	if err != nil {
		return result{}, err
	}
	res.OpenSeconds = opened.Seconds()
	res.Server.OpenMicros = micros(after.CPU-before.CPU) / float64(s.watchers)
	return res, nil
}

// openWatches opens the watches of a workload. If the workload has a stalled watcher, its URI is the
// last one.
func (r *runner) openWatches(g *watcherGroup, s eventWorkload, uris []string) error {
	if s.stalled {
		last := len(uris) - 1
		if err := g.open(uris[:last], min(s.conns, last)); err != nil {
			return err
		}
		return g.openStalled(uris[last])
	}
	return g.open(uris, min(s.conns, len(uris)))
}

// emitAndAwait sends writes, and returns when all watchers that read have received their events. took is
// the time until the last write was acknowledged.
func (r *runner) emitAndAwait(g *watcherGroup, s eventWorkload, source eventSource, events int) (took time.Duration, err error) {
	expected := g.arrivedEvents.Load() + int64(events)*int64(s.fanOut())
	start := time.Now()
	if err := source.Emit(g.ctx, events, s.rate); err != nil {
		return 0, err
	}
	took = time.Since(start)
	return took, g.await(expected, arrivalTimeout)
}

// measure sends the measured writes, and returns the cost of their events without OpenSeconds and
// OpenMicros. It closes g.
func (r *runner) measure(g *watcherGroup, s eventWorkload, source eventSource) (result, error) {
	r.meter.ResetPeak()
	before, err := r.meter.Read()
	if err != nil {
		return result{}, err
	}
	clientBefore, writes := testbed.ClientCPU(), r.plan.eventCount(s, r.plan.Duration)
	g.measuredSince.Store(time.Now().UnixNano())
	took, err := r.emitAndAwait(g, s, source, writes)
	if err != nil {
		return result{}, err
	}
	after, err := r.meter.Read()
	if err != nil {
		return result{}, err
	}
	clientCPU := testbed.ClientCPU() - clientBefore
	g.close()
	spans, bytes, resumed := g.totals()
	expected := writes * s.fanOut()
	if len(spans) != expected {
		return result{}, fmt.Errorf("%d events arrived, %d were sent: some arrived twice or without their stamp", len(spans), expected)
	}
	res := result{
		Workload: s.name, Watchers: s.watchers, Connections: len(g.connections), HTTP1: s.http1, Encoding: s.encoding,
		Writes: writes, WritesPerSec: float64(writes) / took.Seconds(), Events: expected,
		BytesPerEvent: float64(bytes) / float64(expected), Millis: render.Summarize(spans),
		ClientCPUMicros: micros(clientCPU) / float64(expected), Resumed: int64(resumed),
	}
	res.Server = newServerCost(after.CPU-before.CPU, r.writeMicrosAlone[s.aloneKey()], res)
	res.Server.RSSBytes, res.Server.PeakBytes = after.RSS, after.Peak
	return res, nil
}

// newServerCost divides CPU time by the numbers of writes and events of res. aloneMicros is the CPU
// for a write without watchers.
func newServerCost(cpu time.Duration, aloneMicros float64, res result) *serverCost {
	cost := &serverCost{
		CPUSeconds: cpu.Seconds(), AloneMicros: aloneMicros,
		WriteMicros: micros(cpu) / float64(res.Writes), EventMicros: micros(cpu) / float64(res.Events),
	}
	cost.NetMicros = max(0, micros(cpu)-aloneMicros*float64(res.Writes)) / float64(res.Events)
	return cost
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// prepare creates the config maps that are watched, or finds the pods. It measures writes to them
// without watchers, unless that was done before. It returns the source of events, and the resource
// version after which watches start.
func (r *runner) prepare(ctx context.Context, s eventWorkload) (source eventSource, resourceVersion string, err error) {
	if s.kind == watchFloor {
		return floor.Emitter{Target: r.target}, "", nil
	}
	path := configMapsPath
	if s.writesPods() {
		path = podsPath
		if len(r.pods) < s.objects() {
			return nil, "", fmt.Errorf("write to pods of %d nodes: there are pods of fill on %d only", s.objects(), len(r.pods))
		}
		r.writer.Change = podChanges(r.pods[:s.objects()])
	} else {
		if r.created[s.configMapSet()] < s.objects() {
			if err := createConfigMaps(ctx, r.writer, s.configMapSet(), s.objects()); err != nil {
				return nil, "", fmt.Errorf("create config maps: %w", err)
			}
			r.created[s.configMapSet()] = s.objects()
		}
		r.writer.Change = configMapChanges(s.configMapSet(), s.objects())
	}
	if err := r.measureWritesAlone(ctx, s); err != nil {
		return nil, "", fmt.Errorf("write without watchers: %w", err)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string           `json:"resourceVersion"`
			ShardInfo       *json.RawMessage `json:"shardInfo"`
		} `json:"metadata"`
	}
	query := url.Values{"limit": {"1"}}
	if s.kind == watchShards {
		query.Set("shardSelector", shardSelector(0, 1))
	}
	err = r.target.Get(ctx, path+"?"+query.Encode(), &list)
	if err == nil && s.kind == watchShards && list.Metadata.ShardInfo == nil {
		err = errors.New("the server ignores shardSelector: start it with --" + shardsFlag)
	}
	return r.writer, list.Metadata.ResourceVersion, err
}

// measureWritesAlone measures the writes of a workload without watchers, unless writes with the same
// writeKey are measured already.
func (r *runner) measureWritesAlone(ctx context.Context, s eventWorkload) error {
	if _, done := r.writeMicrosAlone[s.aloneKey()]; done {
		return nil
	}
	// The objects may just have been created.
	if err := testbed.Sleep(ctx, r.plan.Settle); err != nil {
		return err
	}
	if err := r.writer.Emit(ctx, r.plan.eventCount(s, r.plan.Warmup), s.rate); err != nil {
		return err
	}
	before, err := r.meter.Read()
	if err != nil {
		return err
	}
	writes := r.plan.eventCount(s, r.plan.Duration/3)
	if err := r.writer.Emit(ctx, writes, s.rate); err != nil {
		return err
	}
	after, err := r.meter.Read()
	r.writeMicrosAlone[s.aloneKey()] = micros(after.CPU-before.CPU) / float64(writes)
	return err
}

// saveFloorEvent stores the event of a config map in dir, for the floor to send.
func (r *runner) saveFloorEvent(ctx context.Context, dir string) error {
	object, err := r.writtenConfigMap(ctx)
	if err != nil {
		return fmt.Errorf("get a config map for the floor: %w", err)
	}
	return floor.WriteWatchEvent(dir, object)
}

// writtenConfigMap returns a config map as the server stores it after a write.
func (r *runner) writtenConfigMap(ctx context.Context) ([]byte, error) {
	if err := createConfigMaps(ctx, r.writer, "all", 1); err != nil {
		return nil, err
	}
	w := r.writer.Single(configMapChanges("all", 1))
	if err := w.Emit(ctx, 1, 1); err != nil {
		return nil, err
	}
	return w.FetchBody(ctx, testbed.Request{URI: configMapsPath + "/" + configMapName("all", 0), Accept: testbed.AcceptJSON})
}

// findPods returns one pod of each node, among the pods that "fill" has made: only these may be
// written to.
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

// eventSource makes events: a Writer for servers, an Emitter for the floor.
type eventSource interface {
	// Emit makes a number of events, at a rate in events per second, and returns when the last one
	// is acknowledged.
	Emit(ctx context.Context, events int, rate float64) error
}
