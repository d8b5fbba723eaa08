package follow

import (
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/tier/cache"
)

// collector reports what is followed at the moment of a scrape.
type collector struct {
	metrics.BaseStableCollector
	resources *Resources
}

var _ metrics.StableCollector = (*collector)(nil)

var (
	resourcesDesc = metrics.NewDesc("millrace_replica_followed_resources", "Resources of the upstream's API by what they are in: absent, loading, following, doubtful, stale or refused. One that is held in JSON and in protobuf counts twice.", []string{"state"}, nil, metrics.ALPHA, "")
	bytesDesc     = metrics.NewDesc("millrace_replica_followed_bytes", "Bytes of the objects, as stored, that are held of these resources, or are being loaded.", nil, nil, metrics.ALPHA, "")
	limitDesc     = metrics.NewDesc("millrace_replica_followed_limit_bytes", "Most of these bytes before resources that nobody has named are given up: --follow-bytes.", nil, nil, metrics.ALPHA, "")
	proofsDesc    = metrics.NewDesc("millrace_replica_proofs_total", "GET and LIST requests without a resource version of followed resources, by what has proven that nothing newer exists: the upstream's progress, its contents (all keys, read once for many requests), or none, for those that are passed on.", []string{"by"}, nil, metrics.ALPHA, "")
)

// Collector reports what is followed.
func (s *Resources) Collector() metrics.StableCollector { return &collector{resources: s} }

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- resourcesDesc
	ch <- bytesDesc
	ch <- limitDesc
	ch <- proofsDesc
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	states, bytes := c.resources.count()
	for _, state := range States() {
		ch <- metrics.NewLazyConstMetric(resourcesDesc, metrics.GaugeValue, float64(states[state]), string(state))
	}
	ch <- metrics.NewLazyConstMetric(bytesDesc, metrics.GaugeValue, float64(bytes))
	ch <- metrics.NewLazyConstMetric(limitDesc, metrics.GaugeValue, float64(c.resources.cfg.MaxBytes))
	proofs := c.resources.proofs()
	for by, n := range map[string]int64{"progress": proofs.Progress, "contents": proofs.Contents, "none": proofs.None} {
		ch <- metrics.NewLazyConstMetric(proofsDesc, metrics.CounterValue, float64(n), by)
	}
}

// proofs returns how many reads of all resources were proven, and how.
func (s *Resources) proofs() (sum cache.ProofCounts) {
	for _, f := range s.allResources() {
		counts := f.backend.Prover.Counts()
		sum.Progress += counts.Progress
		sum.Contents += counts.Contents
		sum.None += counts.None
	}
	return sum
}

// count returns how many resources are in each state, and the bytes of all objects.
func (s *Resources) count() (states map[State]int, bytes int64) {
	away, now := s.Healthy() != nil, s.cfg.Clock.Now()
	states = map[State]int{}
	for _, f := range s.allResources() {
		states[f.state(away, now)]++
		bytes += f.bytes()
	}
	return states, bytes
}
