package crd

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A servedDefinition begins with the first request for its definition, and ends when the
// definition's spec or accepted names change:
//
//	           acquire                    changed                 tearDown
//	(none) ─────────────► in mu.served ─────────────► retired ─────────────► ended
//	                      new requests                 no new requests;       storages and
//	                      take references              those under way,       watches are
//	                                                   and watches, go on     gone
//
// The comment of usage shows how a request comes to a servedDefinition and leaves it. A request
// takes its reference under the lock under which changed retires the servedDefinition
// (Server.mu). So a request either has a reference that tearDown waits for, or finds the
// successor. A request that sees a new row before changed does retires the servedDefinition
// itself.

// watchGrace is how long watches of a retired servedDefinition go on, as in Kubernetes, so
// that they deliver the events from before the change. Nothing else depends on it.
const watchGrace = time.Second

// servedDefinition returns the state by which the newest row of a name is served, or nil
// if there is no row. The caller has no reference to it.
func (s *Server) servedDefinition(name string) *servedDefinition {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, _ := s.servedDefinitionLocked(name)
	return current
}

// acquire returns a usage of the state by which the newest row of a name is served, with a
// reference that the caller must release. It returns nil if there is no row. Other functions
// than tryUse do not call it.
func (s *Server) acquire(name string) *usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, row := s.servedDefinitionLocked(name)
	if current == nil {
		return nil
	}
	// It cannot fail: a servedDefinition in mu.served is not retired.
	return &usage{served: current, row: row, held: current.references.acquire()}
}

// servedDefinitionLocked returns the newest row of a name, and the servedDefinition that matches
// it, which is made now if there is none. It returns nil if there is no row.
func (s *Server) servedDefinitionLocked(name string) (*servedDefinition, *Definition) {
	// If the row changes after it was read here, changed waits for the lock and retires
	// the servedDefinition that is made below.
	d := s.catalog.Get(name)
	if d == nil {
		return nil, nil
	}
	current := s.mu.served[d.UID]
	if current != nil && current.newest.Load() != d && !current.matches(d) {
		// The row has changed, and changed waits for the lock.
		s.retireLocked(current)
		go s.tearDown(current, nil)
		current = nil
	}
	if current == nil {
		current = newServedDefinition(s, d)
		s.mu.served[d.UID] = current
	}
	return current, d
}

// retireLocked keeps new requests from a servedDefinition. The caller must tear it down.
func (s *Server) retireLocked(current *servedDefinition) {
	delete(s.mu.served, current.def.UID)
	s.mu.retired[current] = true
	current.retire()
}

// changed handles a change of a row. The catalog calls it.
func (s *Server) changed(before, after *Definition) {
	if before == nil {
		return
	}
	if s.cfg.Outdated != nil && (after == nil || !before.servedLike(after)) {
		s.cfg.Outdated(schema.GroupResource{Group: before.Group, Resource: before.Wanted.Plural})
	}
	old, released := s.retireOutdated(before, after)
	if old != nil {
		go s.tearDown(old, released)
	} else if released != nil {
		s.releaseRetained(released)
	}
}

// retireOutdated retires the servedDefinition that no longer matches after a change, and returns
// it. If the definition is gone it also returns the resource that need not be retained any
// longer. Either result may be nil.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.updateCustomResourceDefinition; compare at each upgrade.
func (s *Server) retireOutdated(before, after *Definition) (*servedDefinition, *retainedResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.mu.served[before.UID]
	if after != nil && (current == nil || current.matches(after)) {
		if current != nil {
			current.newest.Store(after)
		}
		return nil, nil
	}
	var released *retainedResource
	if after == nil {
		released = s.mu.retained[before.UID]
		delete(s.mu.retained, before.UID)
	}
	if current != nil {
		s.retireLocked(current)
	}
	return current, released
}

// tearDown ends a retired servedDefinition when its requests are answered, and releases
// the resource that is no longer retained, unless that is nil. Watches end with it: after
// watchGrace, or without it if their events cannot be decoded because no schemas are
// compiled. Requests that take too long are not waited for.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.tearDown; compare at each upgrade.
func (s *Server) tearDown(old *servedDefinition, released *retainedResource) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.timeouts.request)
	defer cancel()
	if !old.schemaSlot.empty() {
		select {
		case <-time.After(watchGrace):
		case <-ctx.Done():
		}
	}
	select {
	case <-old.references.drained:
	case <-ctx.Done():
	}
	old.end()
	s.mu.Lock()
	delete(s.mu.retired, old)
	s.mu.Unlock()
	if released != nil {
		s.releaseRetained(released)
	}
}

// destroy ends the storages of all servedDefinitions when the server has shut down. Retired ones
// end by tearDown.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.destroy; compare at each upgrade.
func (s *Server) destroy() {
	s.mu.Lock()
	all := s.mu.served
	s.mu.served = map[types.UID]*servedDefinition{}
	s.mu.Unlock()
	for _, current := range all {
		current.end()
	}
}
