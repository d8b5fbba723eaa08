package crd

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/millrace/millrace/internal/storage"
)

// reportCount tells metrics how many objects there are of a resource, as Kubernetes' storages
// do in a goroutine each.
func (s *Server) reportCount(k *retainedResource) {
	if s.countObjects.Load() {
		etcdmetrics.UpdateStoreStats(k.resource.GroupResource(), k.stats(), nil)
	}
}

func (k *retainedResource) stats() apistorage.Stats {
	snapshot := k.resource.Snapshot()
	stats := apistorage.Stats{ObjectCount: int64(snapshot.Len())}
	if stats.ObjectCount > 0 && utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate) {
		stats.EstimatedAverageObjectSizeBytes = snapshot.Bytes / stats.ObjectCount
	}
	return stats
}

// Stats returns how many objects there are of a custom resource. It returns false if
// none is in use, or nobody wants to know. Kubernetes' tracker, which storages tell of
// them, would remember resources for an hour after they are gone.
func (s *Server) Stats(gr schema.GroupResource) (apistorage.Stats, bool) {
	d := s.catalog.Get(gr.String())
	if d == nil || !s.countObjects.Load() {
		return apistorage.Stats{}, false
	}
	s.mu.Lock()
	k := s.mu.retained[d.UID]
	s.mu.Unlock()
	if k == nil {
		return apistorage.Stats{}, false
	}
	return k.stats(), true
}

// reportCounts counts the objects of all resources that are in use.
func (s *Server) reportCounts() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.mu.retained))
	s.mu.Unlock()
	for _, k := range all {
		s.reportCount(k)
	}
}

// releaseRetained lets a resource go whose definition is gone.
func (s *Server) releaseRetained(k *retainedResource) {
	gr := k.resource.GroupResource()
	etcdmetrics.DeleteStoreStats(gr)
	k.cache.Release(k.resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.gone[gr] = true
}

// takeGone returns the resources that went since it last returned any. While more go it
// waits for them, up to forgetPatience calls: what is done for them costs as much for
// one as for all.
func (s *Server) takeGone() map[schema.GroupResource]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.delays++; len(s.mu.gone) != s.mu.goneBefore && s.mu.delays < maxForgetDelays {
		s.mu.goneBefore = len(s.mu.gone)
		return nil
	}
	gone := s.mu.gone
	s.mu.gone, s.mu.goneBefore, s.mu.delays = map[schema.GroupResource]bool{}, 0, 0
	return gone
}

// forgetGone drops what is known of resources that went.
func (s *Server) forgetGone() {
	gone := s.takeGone()
	maps.DeleteFunc(gone, func(gr schema.GroupResource, _ bool) bool { return s.catalog.Get(gr.String()) != nil })
	if len(gone) == 0 {
		return
	}
	if s.cfg.Gone != nil {
		s.cfg.Gone(gone)
	}
	if err := storage.ForgetMetrics(gone); err != nil {
		utilruntime.HandleError(fmt.Errorf("drop metrics of %d resources that are gone: %w", len(gone), err))
	}
}
