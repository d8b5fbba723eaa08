package crd

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// Route returns the route that answers reads of a version from stored bytes. It returns nil if
// the version is not served here, if it cannot be opened, or without Config.Route. Then the
// handler answers. Route is a read.Finder.
func (s *Server) Route(gvr schema.GroupVersionResource) *read.Route {
	row := s.catalog.Find(gvr.Group, gvr.Resource)
	if !row.active(gvr.Version) {
		return nil
	}
	current := s.servedDefinition(row.Name)
	if current == nil || !current.matches(row) {
		return nil
	}
	v, err := current.version(gvr.Version)
	if err != nil {
		return nil // the handler answers with the error
	}
	return v.route
}

// newRoute makes the route of a version. It returns nil if reads are left to Kubernetes'
// handlers, or if retained is nil because the definition has changed.
func (s *servedDefinition) newRoute(v *servedVersion, retained *retainedResource) (*read.Route, error) {
	if s.server.cfg.Route == nil || retained == nil {
		return nil, nil
	}
	cfg := read.RouteConfig{
		Resource: s.resource(v.name), Kind: s.kind(v.name), Namespaced: s.def.Namespaced(),
		Gets: true, Lists: true, Watches: true,
		Serializer: v.scope.Serializer, Convertor: v.scope.Convertor, Table: v.registry, Warning: v.warning,
		Objects: v.store, Hub: retained.hub,
		Custom: &read.Custom{Standard: v.scope.StandardSerializers, Begin: s.begin},
	}
	if s.def.Webhook {
		cfg.Converter, cfg.Serializer = v.store, v.convertedSerializer(s)
	} else {
		cfg.Transcode = transcode.NewCustomKind(cfg.Kind)
	}
	return s.server.cfg.Route(cfg)
}

// convertedSerializer returns the serializer of the version for objects that are
// converted to it already. Its encoders do not convert them again.
func (v *servedVersion) convertedSerializer(s *servedDefinition) negotiatedSerializer {
	return negotiatedSerializer{s, v.scope.Serializer.SupportedMediaTypes(), sameVersion{lazyConvertor{served: s}}}
}

// sameVersion is a convertor that returns objects as they are.
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
