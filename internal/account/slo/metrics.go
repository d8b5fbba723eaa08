package slo

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Collector makes metrics from the accounts at each scrape.
type Collector struct {
	metrics.BaseStableCollector
	set *Watches
}

var _ metrics.StableCollector = (*Collector)(nil)

// NewCollector makes a collector for a set.
func NewCollector(set *Watches) *Collector { return &Collector{set: set} }

func describe(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

var (
	spanDesc      = describe("watch_span_seconds", "Time from an event's arrival from etcd until it was handed to a client's connection, for each delivery, by resource.", "resource")
	eventsDesc    = describe("watch_delivered_events_total", "Events delivered to watches, initial ones included, by resource.", "resource")
	bytesDesc     = describe("watch_delivered_bytes_total", "Bytes of watches' bodies handed to connections, compressed and before TLS, by resource.", "resource")
	lateDesc      = describe("watch_late_events_total", "Events whose span was longer than the objective, by resource.", "resource")
	stageDesc     = describe("watch_stage_seconds_total", "Time of all spans, by resource and stage.", "resource", "stage")
	p99Desc       = describe("watch_span_p99_seconds", "Span that 99 of 100 events of the last minute did not exceed, by resource.", "resource")
	objectiveDesc = describe("watch_objective_seconds", "Span that 99 of 100 events may have, by resource.", "resource")
	expiredDesc   = describe("watch_relists_total", "Watches that were told to list again because their place in the log was lost, by resource.", "resource")
	watchersDesc  = describe("watch_watchers", "Watches that are open, by resource.", "resource")
	behindDesc    = describe("watch_behind", "Watches that were not sent all yet.")
	behindMaxDesc = describe("watch_behind_seconds_max", "Age of the oldest event that a watch was not sent.")
	metDesc       = describe("watch_slo_met", "1 while every objective is met and etcd is in time.")
	causeDesc     = describe("slo_cause", "1 for each cause that keeps events from being in time now.", "cause")
	feedDesc      = describe("feed_delivery_seconds", "Time that etcd's watch took to answer a request for its progress, in the last minute, by etcd cluster and quantile.", "etcd", "quantile")
	feedLateDesc  = describe("feed_late_seconds", "Time for which etcd's watch has not answered, 0 when it is in time, by etcd cluster.", "etcd")
	delayDesc     = describe("process_delay_seconds", "Time by which timers fired late in the last minute, by quantile.", "quantile")
	probeDesc     = describe("watch_probe_seconds", "Time to the probe's event in the last minute, from the start of its write or from the answer to it, by quantile.", "from", "quantile")
)

func allDescs() []*metrics.Desc {
	return []*metrics.Desc{
		spanDesc, eventsDesc, bytesDesc, lateDesc, stageDesc, p99Desc, objectiveDesc, expiredDesc, watchersDesc, behindDesc, behindMaxDesc,
		metDesc, causeDesc, feedDesc, feedLateDesc, delayDesc, probeDesc, k8sDispatchDesc,
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (c *Collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range allDescs() {
		ch <- d
	}
}

// causes are all values of the label cause.
var causes = []serverreport.Cause{
	serverreport.Cause(serverreport.StageEtcd), serverreport.Cause(serverreport.StageDecode), serverreport.Cause(serverreport.StageDispatch), serverreport.Cause(serverreport.StageEncode), serverreport.Cause(serverreport.StageClient), serverreport.Cause(serverreport.StageConnection),
	serverreport.CauseCPU, serverreport.CauseSize, serverreport.CauseProbe,
}

// CollectWithStability implements metrics.StableCollector.
func (c *Collector) CollectWithStability(ch chan<- metrics.Metric) {
	result := c.set.SLO()
	c.resources(ch)
	for i := range result.Resources {
		gauge(ch, p99Desc, result.Resources[i].Spans.P99, result.Resources[i].Resource)
	}
	behind := watchesBehind(c.set.watches(), result.Time)
	gauge(ch, behindDesc, float64(len(behind)))
	var most float64
	if len(behind) > 0 {
		most = behind[0].BehindSeconds
	}
	gauge(ch, behindMaxDesc, most)
	gauge(ch, metDesc, boolValue(result.Met))
	found := map[serverreport.Cause]bool{}
	for _, f := range result.Causes {
		found[f.Cause] = true
	}
	for _, cause := range causes {
		gauge(ch, causeDesc, boolValue(found[cause]), string(cause))
	}
	for _, f := range c.set.Feed().Feeds {
		for _, etcd := range f.Endpoints[:min(1, len(f.Endpoints))] {
			gauge(ch, feedLateDesc, f.LateSeconds, etcd)
			quantiles(ch, feedDesc, &f.Delivery, etcd)
		}
	}
	quantiles(ch, delayDesc, &result.Process.Delay)
	if result.Probe != nil {
		quantiles(ch, probeDesc, &result.Probe.Whole, "write")
		quantiles(ch, probeDesc, &result.Probe.Commit, "answer")
	}
}

// resources sends the metrics of each resource, except for its p99. Its counters are since the
// resource's account was made.
func (c *Collector) resources(ch chan<- metrics.Metric) {
	watchers := map[*resourceAccount]int{}
	for _, w := range c.set.watches() {
		watchers[w.resource]++
	}
	for _, r := range c.set.resources() {
		r.mu.Lock()
		r.countPendingLocked()
		events, bytes, expired, t := r.mu.events, r.mu.bytes, r.mu.expired, r.mu.totals
		r.mu.Unlock()
		counter(ch, eventsDesc, float64(events), r.name)
		counter(ch, bytesDesc, float64(bytes), r.name)
		counter(ch, lateDesc, float64(t.late), r.name)
		counter(ch, expiredDesc, float64(expired), r.name)
		gauge(ch, watchersDesc, float64(watchers[r]), r.name)
		gauge(ch, objectiveDesc, r.objective.Seconds(), r.name)
		for i, d := range t.stageSums {
			counter(ch, stageDesc, d.Seconds(), r.name, string(stageNames[i]))
		}
		ch <- constHistogram(spanDesc, spanBounds[:], t.firstBound[:], t.spanSum, r.name)
		gr := schema.ParseGroupResource(r.name)
		for i := range t.k8sDispatch {
			ch <- t.k8sDispatch[i].histogram(gr.Group, gr.Resource, k8sDispatchNames[i])
		}
	}
}

// constHistogram makes a histogram of counts by bucket. The last count is of times beyond
// all bounds.
func constHistogram(d *metrics.Desc, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) prometheus.Metric {
	upTo, count := map[float64]uint64{}, uint64(0)
	for i, bound := range bounds {
		count += counts[i]
		upTo[bound.Seconds()] = count
	}
	count += counts[len(bounds)]
	// Kubernetes' wrapper has no constant histograms. A gauge lends its description.
	desc := metrics.NewLazyConstMetric(d, metrics.GaugeValue, 0, labels...).Desc()
	return prometheus.MustNewConstHistogram(desc, count, sum.Seconds(), upTo, labels...)
}

func gauge(ch chan<- metrics.Metric, d *metrics.Desc, value float64, labels ...string) {
	ch <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value, labels...)
}

func counter(ch chan<- metrics.Metric, d *metrics.Desc, value float64, labels ...string) {
	ch <- metrics.NewLazyConstMetric(d, metrics.CounterValue, value, labels...)
}

// quantiles sends one gauge for each quantile. It sends none if q has no times.
func quantiles(ch chan<- metrics.Metric, d *metrics.Desc, q *serverreport.Quantiles, labels ...string) {
	if q.Count == 0 {
		return
	}
	for name, value := range map[string]float64{"0.5": q.P50, "0.99": q.P99, "0.999": q.P999, "1": q.Max} {
		gauge(ch, d, value, append(labels, name)...)
	}
}

func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
