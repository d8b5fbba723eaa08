package crd

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// reportCount sets the metrics of how many objects a resource has. Kubernetes' storages do
// so in a goroutine each.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.Store.startObservingCount; compare at each upgrade.
func (s *Server) reportCount(r *retainedResource) {
	if s.countObjects.Load() {
		etcdmetrics.UpdateStoreStats(r.resource.GroupResource(), r.stats(), nil)
	}
}

func (r *retainedResource) stats() apistorage.Stats {
	snapshot := r.resource.Snapshot()
	stats := apistorage.Stats{ObjectCount: int64(snapshot.Len())}
	if stats.ObjectCount > 0 && utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate) {
		stats.EstimatedAverageObjectSizeBytes = snapshot.Bytes / stats.ObjectCount
	}
	return stats
}

// Stats returns how many objects a custom resource has, and their average size if the feature
// gate SizeBasedListCostEstimate is on. It returns false if no version of the resource was
// asked for, or if objects are not counted at all. It takes the place of Kubernetes'
// tracker, which storages report to, and which remembers resources for an hour after they
// are gone.
//
// Upstream: k8s.io/apiserver/pkg/util/flowcontrol/request.objectCountTracker.Get; compare at each upgrade.
func (s *Server) Stats(gr schema.GroupResource) (apistorage.Stats, bool) {
	d := s.catalog.Get(gr.String())
	if d == nil || !s.countObjects.Load() {
		return apistorage.Stats{}, false
	}
	s.mu.Lock()
	r := s.mu.retained[d.UID]
	s.mu.Unlock()
	if r == nil {
		return apistorage.Stats{}, false
	}
	return r.stats(), true
}

// reportCounts sets the metrics of all resources that are in use.
func (s *Server) reportCounts() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.mu.retained))
	s.mu.Unlock()
	for _, r := range all {
		s.reportCount(r)
	}
}
