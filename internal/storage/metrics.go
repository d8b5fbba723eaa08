package storage

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// confirmed counts a consistent read under the names that Kubernetes' watch cache
// has. None falls back to etcd.
func (s *Store) confirmed(began time.Time, err error) {
	gr := s.cfg.Resource.GroupResource()
	cachermetrics.WatchCacheReadWait.WithLabelValues(gr.Group, gr.Resource).Observe(time.Since(began).Seconds())
	cachermetrics.ConsistentReadTotal.WithLabelValues(gr.Group, gr.Resource, strconv.FormatBool(err == nil), "false").Inc()
}

// ForgetMetrics drops what was counted of a resource that is gone. Kubernetes keeps
// that for good: some 10 KB, and a hundred lines of each scrape.
func ForgetMetrics(gr schema.GroupResource) {
	etcdmetrics.DeleteStoreStats(gr)
	labels := map[string]string{"group": gr.Group, "resource": gr.Resource}
	for _, counter := range []*metrics.CounterVec{
		cachermetrics.InitCounter, cachermetrics.EventsReceivedCounter, cachermetrics.EventsCounter,
		cachermetrics.TerminatedWatchersCounter, cachermetrics.WatchCacheInitializations,
	} {
		counter.Delete(labels)
	}
	cachermetrics.WatchCacheReadWait.Delete(labels)
	labels["fallback"] = "false"
	for _, success := range []string{"true", "false"} {
		labels["success"] = success
		cachermetrics.ConsistentReadTotal.Delete(labels)
	}
	of := etcdRequests()
	for _, operation := range []string{"get", "create", "update", "delete", "list", "listWithCount", "listOnlyKeys"} {
		labels := map[string]string{"operation": operation, "group": gr.Group, "resource": gr.Resource}
		for _, vec := range of {
			vec.Delete(labels)
		}
	}
}

type vec interface {
	Delete(labels map[string]string) bool
}

// etcdRequests are Kubernetes' metrics of requests to etcd. It gives them to nobody;
// who registers the same once more is told what there is.
var etcdRequests = sync.OnceValue(func() []vec {
	etcdmetrics.Register()
	labels := []string{"operation", "group", "resource"}
	counter := func(name, help string) prometheus.Collector {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	var found []vec
	for _, same := range []prometheus.Collector{
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcd_request_duration_seconds", Help: "[ALPHA] Etcd request latency in seconds for each operation and object type.",
		}, labels),
		counter("etcd_requests_total", "[ALPHA] Etcd request counts for each operation and object type."),
		counter("etcd_request_errors_total", "[ALPHA] Etcd failed request counts for each operation and object type."),
	} {
		var there prometheus.AlreadyRegisteredError
		if errors.As(legacyregistry.Registerer().Register(same), &there) {
			if v, ok := there.ExistingCollector.(vec); ok {
				found = append(found, v)
			}
		}
	}
	return found
})
