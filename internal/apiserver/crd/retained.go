package crd

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	etcdmetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/tier/watch"
)

// retainedResource is a resource that stays in the cache, with its history, until its
// definition is gone. It outlives the storages, which end with each change of the
// definition's spec or accepted names. So watches can resume after such a change.
type retainedResource struct {
	cache    *cache.Cache
	resource *cache.Resource
	hub      *watch.Hub
}

// retain retains a store's resource until its definition is gone. It returns nil if the
// servedDefinition is retired already.
func (s *Server) retain(current *servedDefinition, store *storage.Store) *retainedResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := current.def.UID
	if s.mu.served[uid] != current {
		return nil
	}
	if s.mu.retained[uid] == nil {
		store.Cache().Retain(store.Resource())
		r := &retainedResource{store.Cache(), store.Resource(), watch.NewHub(store.Resource())}
		s.mu.retained[uid] = r
		s.reportCount(r)
	}
	return s.mu.retained[uid]
}

// releaseRetained gives up a resource whose definition is gone. What else is remembered
// of it goes later, together with other resources (forgetGone).
func (s *Server) releaseRetained(r *retainedResource) {
	gr := r.resource.GroupResource()
	etcdmetrics.DeleteStoreStats(gr)
	r.cache.Release(r.resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.gone[gr] = true
}

const (
	// forgetPeriod is the time between two calls of forgetGone.
	forgetPeriod = 10 * time.Second
	// maxForgetDelays is how many periods a resource is remembered at most after it is gone.
	maxForgetDelays = 6
)

// forgetGone drops metrics and whatever else is remembered of resources that are gone.
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
		s.cfg.Logger.Error("Metrics of deleted resources cannot be dropped", "resources", len(gone), "err", err)
	}
}

// takeGone returns the resources that went since it last returned any. Forgetting one resource
// costs as much as forgetting all of them. So while more of them go, takeGone returns none until
// the call of number maxForgetDelays.
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
