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

// recordConsistentRead counts a consistent read in the metrics of Kubernetes' watch
// cache. A consistent read that fails is not read from etcd, so the label fallback is false.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.GetList; compare at each upgrade.
func (s *Store) recordConsistentRead(began time.Time, err error) {
	gr := s.cfg.Resource.GroupResource()
	cachermetrics.WatchCacheReadWait.WithLabelValues(gr.Group, gr.Resource).Observe(time.Since(began).Seconds())
	cachermetrics.ConsistentReadTotal.WithLabelValues(gr.Group, gr.Resource, strconv.FormatBool(err == nil), "false").Inc()
}

// recordList counts a list in the metrics of Kubernetes' watch cache.
func (s *Store) recordList(p page) {
	cachermetrics.RecordListCacheMetrics(s.cfg.Resource.GroupResource(), p.plan.Index(), p.plan.Candidates, p.count)
}

// ForgetMetrics drops the series of resources that are gone from Kubernetes' metrics.
// Kubernetes keeps them for good: some 10 KB for each resource, and a hundred lines of
// each scrape. It gathers all metrics, so callers pass many resources in one call.
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

// deletableMetric is a metric whose series can be deleted.
type deletableMetric interface {
	Delete(labels map[string]string) bool
}

// findDeletable returns a registered metric, or nil if its series cannot be deleted.
func findDeletable(name, help string, labels []string) deletableMetric {
	found, _ := RegisteredMetric(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)).(deletableMetric)
	return found
}

// RegisteredMetric returns the registered metric with the same name, help text and
// labels as a collector, whatever its type, or nil if there is none. The registry
// returns it in the error when the same metric is registered twice.
func RegisteredMetric(same prometheus.Collector) prometheus.Collector {
	err := legacyregistry.Registerer().Register(same)
	if err == nil {
		legacyregistry.Registerer().Unregister(same)
		return nil
	}
	var registered prometheus.AlreadyRegisteredError
	if !errors.As(err, &registered) {
		return nil
	}
	return registered.ExistingCollector
}
