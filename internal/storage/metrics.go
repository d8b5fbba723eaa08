package storage

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// recordConsistentRead counts a consistent read under the names that Kubernetes' watch cache
// has. None falls back to etcd.
func (s *Store) recordConsistentRead(began time.Time, err error) {
	gr := s.cfg.Resource.GroupResource()
	cachermetrics.WatchCacheReadWait.WithLabelValues(gr.Group, gr.Resource).Observe(time.Since(began).Seconds())
	cachermetrics.ConsistentReadTotal.WithLabelValues(gr.Group, gr.Resource, strconv.FormatBool(err == nil), "false").Inc()
}

// recordList counts a list under the names that Kubernetes' watch cache has.
func (s *Store) recordList(p page) {
	cachermetrics.RecordListCacheMetrics(s.cfg.Resource.GroupResource(), p.plan.Index(), p.plan.Candidates, p.count)
}

// ForgetMetrics drops what Kubernetes' metrics say of resources that are gone, which
// it keeps for good: some 10 KB for each, and a hundred lines of each scrape. It goes
// through all metrics, so it is for many resources at once.
func ForgetMetrics(gone map[schema.GroupResource]bool) error {
	families, err := legacyregistry.DefaultGatherer.Gather()
	for _, family := range families {
		var vec deletableMetric
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if !gone[schema.GroupResource{Group: labels["group"], Resource: labels["resource"]}] {
				continue
			}
			if vec == nil {
				if vec = findDeletable(family.GetName(), family.GetHelp(), slices.Collect(maps.Keys(labels))); vec == nil {
					break
				}
			}
			vec.Delete(labels)
		}
	}
	return err
}

// deletableMetric is a metric with labels.
type deletableMetric interface {
	Delete(labels map[string]string) bool
}

// findDeletable finds a metric, nil if it is none that things can be deleted of.
func findDeletable(name, help string, labels []string) deletableMetric {
	found, _ := RegisteredMetric(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)).(deletableMetric)
	return found
}

// RegisteredMetric finds the metric of Kubernetes that has the same name, help text and
// labels, whatever its type, and nil if there is none. The registry gives it out to a
// caller that registers the same once more.
func RegisteredMetric(same prometheus.Collector) prometheus.Collector {
	err := legacyregistry.Registerer().Register(same)
	if err == nil {
		legacyregistry.Registerer().Unregister(same)
		return nil
	}
	var there prometheus.AlreadyRegisteredError
	if !errors.As(err, &there) {
		return nil
	}
	return there.ExistingCollector
}
