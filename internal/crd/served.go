package crd

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilwaitgroup "k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/storage"
)

// errChanged says that a definition is not any more what it was when it began to
// be served like this.
var errChanged = errors.New("the definition of the resource has changed: try again")

// served is a definition as it is served while its spec and its accepted names
// stay the same.
//
// It keeps a storage for each version that was asked for, and two slots: schemas
// for reading, and what writing needs on top. Either may be empty at any time but
// while a request other than a watch is under way.
type served struct {
	server *Server
	// def is the row from when it began. Its conditions may be others now.
	def *Definition

	// requests counts those under way that end by themselves.
	requests atomic.Int64
	// draining lets the end wait for them.
	draining utilwaitgroup.SafeWaitGroup
	// retired says that the definition is another now: what is compiled cannot be
	// made again.
	retired atomic.Bool

	reading *slot[schemas]
	writing *slot[writing]
	// conversions are those that a webhook makes.
	conversions *conversions

	mu struct {
		sync.Mutex
		versions map[string]*version
		ended    bool
	}
}

// version is one version of what is served.
type version struct {
	name  string
	store *storage.Store
	// rest reads and deletes objects. It cannot write any.
	rest  *customresource.REST
	scope *handlers.RequestScope
	// options finds storage with the codec of the version.
	options generic.RESTOptionsGetter
	// warning is what clients of a deprecated version are told.
	warning string
	// route reads from bytes. It may be nil.
	route *read.Route
}

func newServed(server *Server, def *Definition) *served {
	s := &served{server: server, def: def, conversions: newConversions(server.converted)}
	busy := func() bool { return s.requests.Load() > 0 }
	s.reading = newSlot[schemas](server.shelf, busy, s.retired.Load)
	s.writing = newSlot[writing](server.shelf, busy, s.retired.Load)
	s.mu.versions = map[string]*version{}
	return s
}

// is reports whether a row says the same of what is served.
func (s *served) is(d *Definition) bool {
	return s.def.UID == d.UID && s.def.Spec == d.Spec && sameNames(&s.def.Accepted, &d.Accepted)
}

// full decodes the definition, if it is still the same, with schemas to compile.
func (s *served) full() (*apiextensionsv1.CustomResourceDefinition, error) {
	full, d, err := s.server.catalog.both(s.def.Name)
	if err != nil {
		return nil, err
	}
	if !s.is(d) {
		return nil, errChanged
	}
	for i := range full.Spec.Versions {
		if v := &full.Spec.Versions[i]; v.Schema != nil {
			withoutDescriptions(v.Schema.OpenAPIV3Schema)
		}
	}
	return full, nil
}

// schemas returns what reading needs.
func (s *served) schemas() (*schemas, error) {
	return s.reading.get(func() (made *schemas, size int64, err error) {
		size = s.size()
		err = s.compile(size, func(full *apiextensionsv1.CustomResourceDefinition) error {
			made, err = s.server.compileSchemas(full, s.kind("").GroupKind())
			return err
		})
		return made, schemaFactor * size, err
	})
}

// compile makes something of the whole definition, of so many bytes, in its turn.
func (s *served) compile(size int64, from func(*apiextensionsv1.CustomResourceDefinition) error) error {
	return s.server.compiles.brief(size, func() error {
		full, err := s.full()
		if err != nil {
			return err
		}
		return from(full)
	})
}

func (s *served) kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.def.Group, Version: version, Kind: s.def.Accepted.Kind}
}

func (s *served) resource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.def.Group, Version: version, Resource: s.def.Accepted.Plural}
}

// check finds names that cannot be served.
func (s *served) check() error {
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

// version returns a version that is served or stored, made now if need be.
func (s *served) version(name string) (*version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.mu.versions[name]; made != nil {
		return made, nil
	}
	row := s.def.Version(name)
	if s.mu.ended || row == nil {
		return nil, errChanged
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	made, err := s.newVersion(row)
	if err != nil {
		return nil, err
	}
	kept := s.server.keep(s, made.store)
	if made.route, err = s.newRoute(made, kept); err != nil {
		made.rest.DestroyFunc()
		return nil, err
	}
	s.mu.versions[name] = made
	return made, nil
}

func (s *served) newVersion(row *Version) (*version, error) {
	v := &version{name: row.Name, options: lazyOptions{s.server.options, s, row.Name}}
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
		v.options, s.def.Accepted.Categories, lazyTable{s, row.Name}, nil)
	if err != nil {
		return nil, err
	}
	store, ok := made.CustomResource.Storage.Storage.(*storage.Store)
	if !ok {
		made.CustomResource.DestroyFunc()
		return nil, fmt.Errorf("storage of %s is a %T", kind, made.CustomResource.Storage.Storage)
	}
	v.rest, v.store, v.warning = made.CustomResource, store, s.def.warning(row)
	v.scope.TableConvertor = made.CustomResource
	return v, nil
}

// lazyOptions finds the storage of a version, with a codec that holds no schema.
type lazyOptions struct {
	generic.RESTOptionsGetter
	served  *served
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
	// The server counts objects for all: it needs no goroutine for each version.
	o.served.server.counts.Store(options.CountMetricPollPeriod > 0)
	options.CountMetricPollPeriod = 0
	return options, nil
}

// retire says that the definition has changed. What is compiled stays as it is.
func (s *served) retire() { s.retired.Store(true) }

// end stops the storages, which ends the watches on them.
func (s *served) end() {
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
		v.rest.DestroyFunc()
	}
	s.server.shelf.remove(&s.reading.shelved)
	s.server.shelf.remove(&s.writing.shelved)
	s.server.converted.forget(s.conversions)
}
