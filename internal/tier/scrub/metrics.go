package scrub

import "k8s.io/component-base/metrics"

// Metrics are the metrics of all scrubbers of a process. They are safe for concurrent use.
type Metrics struct {
	mismatches *metrics.CounterVec
	compared   *metrics.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		mismatches: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "cache", Name: "digest_mismatch_total",
			Help:           "Times that objects in the cache were not those of etcd, by resource. They are loaded anew, but a resource that three loads did not mend is left alone for minutes to hours.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"group", "resource"}),
		compared: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "cache", Name: "compared_objects_total",
			Help:           "Objects of etcd that were compared with the cache.",
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, r := range []metrics.Registerable{m.mismatches, m.compared} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}
