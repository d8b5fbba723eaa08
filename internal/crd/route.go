package crd

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/read"
)

// Route returns what answers reads of a version from bytes. It is nil for what is not
// served: Kubernetes' handlers say so. It implements read.Finder.
func (s *Server) Route(gvr schema.GroupVersionResource) *read.Route {
	row := s.catalog.Find(gvr.Group, gvr.Resource)
	if !row.active(gvr.Version) {
		return nil
	}
	now := s.servedDefinition(row.Name)
	if now == nil || !now.matches(row) {
		return nil
	}
	v, err := now.version(gvr.Version)
	if err != nil {
		return nil // the handler says so
	}
	return v.route
}

// newRoute makes the route of a version, nil where there is none.
func (s *servedDefinition) newRoute(v *version, kept *retainedResource) (*read.Route, error) {
	if s.server.cfg.Route == nil || kept == nil {
		return nil, nil
	}
	cfg := read.RouteConfig{
		Resource: s.resource(v.name), Kind: s.kind(v.name), Namespaced: s.def.Namespaced(),
		Gets: true, Lists: true, Watches: true,
		Serializer: v.scope.Serializer, Convertor: v.scope.Convertor, Table: v.registry, Warning: v.warning,
		Source: v.store, Hub: kept.hub,
		Custom: &read.Custom{Standard: v.scope.StandardSerializers, Begin: s.begin},
	}
	if s.def.Webhook {
		cfg.Converter, cfg.Serializer = v.store, v.convertedSerializer(s)
	}
	return s.server.cfg.Route(cfg)
}

// convertedSerializer is the version's for objects that are in the version: its encoders
// do not have them converted again.
func (v *version) convertedSerializer(s *servedDefinition) negotiatedSerializer {
	return negotiatedSerializer{s, v.scope.Serializer.SupportedMediaTypes(), sameVersion{lazyConvertor{served: s}}}
}

// sameVersion converts nothing.
type sameVersion struct{ lazyConvertor }

// ConvertToVersion implements runtime.ObjectConvertor.
func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// begin takes a reference for a request that a route answers, until end is called. It
// returns false if the servedDefinition is retired.
func (s *servedDefinition) begin() (end func(), ok bool) {
	if !s.references.acquire() {
		return nil, false
	}
	return s.references.release, true
}
