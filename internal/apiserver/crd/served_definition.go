package crd

import (
	"fmt"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/storage"
)

// servedDefinition is the state by which a definition is served while its spec and its
// accepted names stay the same. lifecycle.go shows how it begins and ends.
//
// It has a storage for each version that was asked for, which holds no schema. What is
// compiled out of the schemas is in two slots: one for reads, and one for what writes need
// in addition. So thousands of definitions cost little while they are not used. The
// cost is that each use looks into a slot, and that schemas may be compiled again. A slot
// is not emptied while there are references, which all requests except watches have.
type servedDefinition struct {
	server *Server
	// def is the row from when the servedDefinition was made. The conditions of the newest
	// row may differ.
	def *Definition
	// newest is the newest row that matches. It has the same spec and accepted names as def.
	newest atomic.Pointer[Definition]

	// references are held by all requests except watches. They are closed when the
	// definition has changed.
	references *references
	// creators is the number of requests that may create objects.
	creators atomic.Int64

	schemaSlot *compiledSlot[compiledSchemas]
	writerSlot *compiledSlot[writerSet]
	// converter converts objects by the definition's webhook.
	converter *webhookConverter

	mu struct {
		sync.Mutex
		// versions has the versions that were asked for, by name.
		versions map[string]*servedVersion
		ended    bool
	}
}

// servedVersion is one API version of a servedDefinition.
type servedVersion struct {
	name  string
	store *storage.Store
	// registry is Kubernetes' storage for reading and deleting objects. It cannot write:
	// see versionWriter.
	registry *customresource.REST
	scope    *handlers.RequestScope
	// options returns storage with the codec of the version.
	options generic.RESTOptionsGetter
	// warning is sent to clients if the version is deprecated. Otherwise it is "".
	warning string
	// route answers reads from stored bytes. It may be nil.
	route *read.Route
}

func newServedDefinition(server *Server, def *Definition) *servedDefinition {
	s := &servedDefinition{server: server, def: def, references: newReferences(), converter: newWebhookConverter(server.conversions)}
	s.newest.Store(def)
	s.schemaSlot = newCompiledSlot[compiledSchemas](server.compiled, s.references.held, s.references.closed)
	s.writerSlot = newCompiledSlot[writerSet](server.compiled, s.references.held, s.references.closed)
	s.mu.versions = map[string]*servedVersion{}
	return s
}

// matches reports whether the servedDefinition serves what a row says.
func (s *servedDefinition) matches(d *Definition) bool { return s.def.servedLike(d) }

// servedLike reports whether two rows are served in the same way.
func (d *Definition) servedLike(other *Definition) bool {
	return d.UID == other.UID && d.Spec == other.Spec && sameNames(&d.Accepted, &other.Accepted)
}

// decode decodes the definition with its schemas, but without their descriptions, which
// nothing that is compiled needs. It returns ErrChanged if the definition has changed and is
// no longer known as it was.
func (s *servedDefinition) decode() (*apiextensionsv1.CustomResourceDefinition, error) {
	full, err := s.server.catalog.FullOf(s.newest.Load())
	if err != nil {
		return nil, err
	}
	for i := range full.Spec.Versions {
		if v := &full.Spec.Versions[i]; v.Schema != nil {
			withoutDescriptions(v.Schema.OpenAPIV3Schema)
		}
	}
	return full, nil
}

// schemas returns the compiled schemas, which reads need.
func (s *servedDefinition) schemas() (*compiledSchemas, error) {
	return s.schemaSlot.get(func() (made *compiledSchemas, size int64, err error) {
		size = s.size()
		err = s.compile(size, func(full *apiextensionsv1.CustomResourceDefinition) error {
			made, err = s.server.compileSchemas(full, s.kind("").GroupKind())
			return err
		})
		return made, schemaFactor * size, err
	})
}

// compile decodes the definition, whose JSON has size bytes, and calls build with it. It
// waits for other definitions that are being compiled, but not long.
func (s *servedDefinition) compile(size int64, build func(*apiextensionsv1.CustomResourceDefinition) error) error {
	return s.server.compileLimiter.tryFor(size, func() error {
		full, err := s.decode()
		if err != nil {
			return err
		}
		return build(full)
	})
}

func (s *servedDefinition) kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.def.Group, Version: version, Kind: s.def.Accepted.Kind}
}

func (s *servedDefinition) resource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.def.Group, Version: version, Resource: s.def.Accepted.Plural}
}

// checkNames returns an error if the definition lacks a name that serving it needs.
func (s *servedDefinition) checkNames() error {
	names := &s.def.Accepted
	switch {
	case names.Plural == "" || names.Singular == "":
		return fmt.Errorf("definition %s has no accepted plural or singular", s.def.Name)
	case names.Kind == "" || names.ListKind == "":
		return fmt.Errorf("definition %s has no accepted kind or list kind", s.def.Name)
	case s.def.StorageVersion() == "":
		return fmt.Errorf("definition %s has no storage version", s.def.Name)
	}
	return nil
}

// version returns a version of the definition, which is made now if it was not asked for
// before. The lock is held meanwhile, since it also guards against the end: a storage
// that is made afterwards would stay open.
func (s *servedDefinition) version(name string) (*servedVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.mu.versions[name]; made != nil {
		return made, nil
	}
	row := s.def.Version(name)
	if s.mu.ended || row == nil {
		return nil, ErrChanged
	}
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	made, err := s.newVersion(row)
	if err != nil {
		return nil, err
	}
	retained := s.server.retain(s, made.store)
	if made.route, err = s.newRoute(made, retained); err != nil {
		made.registry.DestroyFunc()
		return nil, err
	}
	s.mu.versions[name] = made
	return made, nil
}

// newVersion makes the scope and the storage of a version, without validation of writes.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func (s *servedDefinition) newVersion(row *Version) (*servedVersion, error) {
	v := &servedVersion{name: row.Name, options: lazyOptions{s.server.options, s, row.Name}}
	v.scope = s.newScope(row)
	kind := s.kind(row.Name)
	var fields []apiextensionsv1.SelectableField
	for _, path := range row.SelectableFields {
		fields = append(fields, apiextensionsv1.SelectableField{JSONPath: path})
	}
	made, err := customresource.NewStorage(
		s.resource(row.Name).GroupResource(), schema.GroupResource{Group: s.def.Group, Resource: s.def.Accepted.Singular},
		kind, kind.GroupVersion().WithKind(s.def.Accepted.ListKind),
		customresource.NewStrategy(v.scope.Typer, s.def.Namespaced(), kind, nil, nil, nil, nil, nil, fields),
		v.options, s.def.Accepted.Categories, lazyTableConvertor{s, row.Name}, nil)
	if err != nil {
		return nil, err
	}
	store, ok := made.CustomResource.Storage.Storage.(*storage.Store)
	if !ok {
		made.CustomResource.DestroyFunc()
		return nil, fmt.Errorf("storage of %s is a %T", kind, made.CustomResource.Storage.Storage)
	}
	v.registry, v.store, v.warning = made.CustomResource, store, s.def.warning(row)
	v.scope.TableConvertor = made.CustomResource
	return v, nil
}

// lazyOptions gives the storage of a version a codec that holds no schema.
type lazyOptions struct {
	generic.RESTOptionsGetter
	served  *servedDefinition
	version string
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o lazyOptions) GetRESTOptions(gr schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(gr, nil)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = lazyCodec{o.served, o.version, config.Codec}
	options.StorageConfig = &config
	// Server.sweep counts objects. Kubernetes would start a goroutine for each version.
	o.served.server.countObjects.Store(options.CountMetricPollPeriod > 0)
	options.CountMetricPollPeriod = 0
	return options, nil
}

// retire records that the definition has changed. No request can take a reference from now
// on. Compiled values are no longer dropped, because they might not be compiled again.
// The caller must hold Server.mu.
func (s *servedDefinition) retire() { s.references.close() }

// end ends routes and storages, and the watches on them, and takes what was compiled or converted
// out of the caches.
func (s *servedDefinition) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return
	}
	s.mu.ended = true
	for _, v := range s.mu.versions {
		if v.route != nil {
			v.route.End()
		}
		v.registry.DestroyFunc()
	}
	s.server.compiled.remove(&s.schemaSlot.entry)
	s.server.compiled.remove(&s.writerSlot.entry)
	s.server.conversions.forget(s.converter)
}
