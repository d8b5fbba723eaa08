package crd

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/read"
)

// Route returns what answers reads of a version from bytes. It is nil where
// Kubernetes' handlers have to: for what is not served, and for what a webhook
// converts, which is asked for each object each time. It implements read.Finder.
func (s *Server) Route(gvr schema.GroupVersionResource) *read.Route {
	row := s.catalog.Find(gvr.Group, gvr.Resource)
	if !row.active(gvr.Version) {
		return nil
	}
	now := s.serve(row.Name)
	if now == nil || !now.is(row) {
		return nil
	}
	v, err := now.version(gvr.Version)
	if err != nil {
		return nil // the handler says so
	}
	return v.route
}

// newRoute makes the route of a version, nil where there is none.
func (s *served) newRoute(v *version, kept *kept) (*read.Route, error) {
	if s.server.cfg.Route == nil || s.def.Webhook || kept == nil {
		return nil, nil
	}
	return s.server.cfg.Route(read.RouteConfig{
		Resource: s.resource(v.name), Kind: s.kind(v.name), Namespaced: s.def.Namespaced(),
		Gets: true, Lists: true, Watches: true,
		Serializer: v.scope.Serializer, Convertor: v.scope.Convertor, Table: v.rest, Warning: v.warning,
		Source: v.store, Hub: kept.hub,
		Custom: &read.Custom{Standard: v.scope.StandardSerializers, Begin: s.begin},
	})
}

// begin counts a request that ends by itself.
func (s *served) begin() (end func(), ok bool) {
	if s.draining.Add(1) != nil {
		return nil, false
	}
	s.requests.Add(1)
	return func() {
		s.requests.Add(-1)
		s.draining.Done()
	}, true
}
