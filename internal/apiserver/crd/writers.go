package crd

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/scale/scheme/autoscalingv1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// writerSet has what writes of a definition's objects need in addition to compiledSchemas.
// It has the types of fields, and a versionWriter for each version that was written.
type writerSet struct {
	types managedfields.TypeConverter

	mu struct {
		sync.Mutex
		versions map[string]*versionWriter
	}
}

// versionWriter has the storages for writes of a version and of its subresources, with
// validators, compiled rules and field managers.
type versionWriter struct {
	customresource.CustomResourceStorage
	scope, status, scale *handlers.RequestScope
}

// writer returns the versionWriter of a version. The first caller makes it, under the lock
// of the writerSet; writers of other versions wait meanwhile. Compiling several at a time
// would be no faster (limiter).
func (s *servedDefinition) writer(v *servedVersion) (*versionWriter, error) {
	w, err := s.writerSlot.get(func() (made *writerSet, size int64, err error) {
		size = s.size()
		err = s.compile(size, func(full *apiextensionsv1.CustomResourceDefinition) error {
			made, err = s.newWriterSet(full)
			return err
		})
		return made, typesFactor * size, err
	})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if made := w.mu.versions[v.name]; made != nil {
		return made, nil
	}
	compiled, err := s.schemas()
	if err != nil {
		return nil, err
	}
	var made *versionWriter
	err = s.compile(s.size(), func(full *apiextensionsv1.CustomResourceDefinition) error {
		made, err = s.newWriter(w, v, full)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.mu.versions[v.name] = made
	s.server.compiled.put(&s.writerSlot.entry, writerFactor*s.size()/int64(len(s.def.Versions))+rulesSize(compiled.byVersion[v.name].Structural))
	return made, nil
}

// newWriterSet makes a writerSet without versions. If the OpenAPI types cannot be built, the
// types of fields are deduced from objects.
func (s *servedDefinition) newWriterSet(full *apiextensionsv1.CustomResourceDefinition) (*writerSet, error) {
	w := &writerSet{types: managedfields.NewDeducedTypeConverter()}
	w.mu.versions = map[string]*versionWriter{}
	models, err := s.server.models(full)
	if err != nil {
		s.server.cfg.Logger.Error("OpenAPI types cannot be built; fields are typed by the objects that are applied", "name", full.Name, "err", err)
	}
	if len(models) > 0 {
		if w.types, err = managedfields.NewTypeConverter(models, full.Spec.PreserveUnknownFields); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// models returns the OpenAPI types of the versions, or none if the server has no OpenAPI.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.buildOpenAPIModelsForApply; compare at each upgrade.
func (s *Server) models(full *apiextensionsv1.CustomResourceDefinition) (map[string]*spec.Schema, error) {
	if !s.hasModels {
		return nil, nil
	}
	var all []*spec3.OpenAPI
	for _, v := range full.Spec.Versions {
		one, err := builder.BuildOpenAPIV3(full, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	merged, err := builder.MergeSpecsV3(all...)
	if err != nil || merged.Components == nil {
		return nil, err
	}
	return merged.Components.Schemas, nil
}

func (s *servedDefinition) newWriter(w *writerSet, v *servedVersion, full *apiextensionsv1.CustomResourceDefinition) (*versionWriter, error) {
	for i := range full.Spec.Versions {
		if full.Spec.Versions[i].Name == v.name {
			made, err := s.newStorage(v, full, &full.Spec.Versions[i])
			if err != nil {
				return nil, err
			}
			return made, s.addScopes(made, w.types, v, &full.Spec.Versions[i])
		}
	}
	return nil, ErrChanged
}

// newStorage makes a storage that validates writes, over the storage of the version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func (s *servedDefinition) newStorage(v *servedVersion, full *apiextensionsv1.CustomResourceDefinition, from *apiextensionsv1.CustomResourceDefinitionVersion) (*versionWriter, error) {
	compiled, err := s.schemas()
	if err != nil {
		return nil, err
	}
	parts, err := partsOf(from)
	if err != nil {
		return nil, err
	}
	kind := s.kind(v.name)
	made := &versionWriter{}
	made.CustomResourceStorage, err = customresource.NewStorage(
		s.resource(v.name).GroupResource(), schema.GroupResource{Group: s.def.Group, Resource: s.def.Accepted.Singular},
		kind, kind.GroupVersion().WithKind(s.def.Accepted.ListKind),
		customresource.NewStrategy(v.scope.Typer, s.def.Namespaced(), kind, parts.validator, parts.statusValidator,
			compiled.byVersion[v.name].Structural, parts.status, parts.scale, from.SelectableFields),
		sharedOptions{v.options, v.store}, s.def.Accepted.Categories, lazyTableConvertor{s, v.name}, replicaPaths(full))
	return made, err
}

// sharedOptions returns a storage that exists already, in place of a new one.
type sharedOptions struct {
	generic.RESTOptionsGetter
	store apistorage.Interface
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o sharedOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	options.Decorator = func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
		func() runtime.Object, apistorage.AttrFunc, apistorage.IndexerFuncs, *cache.Indexers) (apistorage.Interface, factory.DestroyFunc, error) {
		return o.store, func() {}, nil
	}
	return options, err
}

// parts has the parts of a version that its strategy needs, in internal form.
type parts struct {
	validator, statusValidator validation.SchemaValidator
	status                     *apiextensions.CustomResourceSubresourceStatus
	scale                      *apiextensions.CustomResourceSubresourceScale
}

// partsOf converts and compiles the parts of a version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func partsOf(v *apiextensionsv1.CustomResourceDefinitionVersion) (parts, error) {
	internal := &apiextensions.CustomResourceDefinitionVersion{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinitionVersion_To_apiextensions_CustomResourceDefinitionVersion(v, internal, nil); err != nil {
		return parts{}, fmt.Errorf("convert version %s: %w", v.Name, err)
	}
	var p parts
	var props *apiextensions.JSONSchemaProps
	if internal.Schema != nil {
		props = internal.Schema.OpenAPIV3Schema
	}
	var err error
	if p.validator, _, err = validation.NewSchemaValidator(props); err != nil {
		return parts{}, err
	}
	if internal.Subresources == nil {
		return p, nil
	}
	p.status, p.scale = internal.Subresources.Status, internal.Subresources.Scale
	if p.status == nil || props == nil {
		return p, nil
	}
	// Writes of the status validate the status alone.
	if status, ok := props.Properties["status"]; ok {
		if p.statusValidator, _, err = validation.NewSchemaValidator(&status); err != nil {
			return parts{}, err
		}
	}
	return p, nil
}

// replicaPaths returns the path of the replicas for each version that can be scaled.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func replicaPaths(full *apiextensionsv1.CustomResourceDefinition) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, v := range full.Spec.Versions {
		gv := schema.GroupVersion{Group: full.Spec.Group, Version: v.Name}.String()
		paths[gv] = nil
		if v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		path := fieldpath.Path{}
		for field := range strings.SplitSeq(strings.TrimPrefix(v.Subresources.Scale.SpecReplicasPath, "."), ".") {
			path = append(path, fieldpath.PathElement{FieldName: &field})
		}
		paths[gv] = path
	}
	return paths
}

// addScopes makes the scopes of a version and of its subresources, with field managers.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.setStatusScope; compare at each upgrade.
func (s *servedDefinition) addScopes(w *versionWriter, types managedfields.TypeConverter, v *servedVersion, from *apiextensionsv1.CustomResourceDefinitionVersion) error {
	var err error
	if w.scope, err = managed(v.scope, types, "", w.CustomResource.GetResetFields()); err != nil {
		return err
	}
	w.scope.TableConvertor = w.CustomResource
	if w.Status != nil {
		if w.status, err = managed(w.scope, types, "status", s.statusResets()); err != nil {
			return err
		}
	}
	if w.Scale == nil {
		return nil
	}
	scope := *w.scope
	scope.Serializer = s.server.scaleSerializer()
	scope.Kind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	scope.TableConvertor, _ = tableconvertor.New(scaleColumns(from))
	w.scale, err = managed(&scope, types, "scale", nil)
	return err
}

// statusResets returns the fields that writes of the status leave alone, for all versions
// that have a status.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.getStatusResetFields; compare at each upgrade.
func (s *servedDefinition) statusResets() map[fieldpath.APIVersion]*fieldpath.Set {
	all := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range s.def.Versions {
		if !v.Status || !v.Served && !v.Storage {
			continue
		}
		kind := s.kind(v.Name)
		strategy := customresource.NewStrategy(nil, s.def.Namespaced(), kind, nil, nil, nil, nil, nil, nil)
		for version, fields := range customresource.NewStatusStrategy(strategy).GetResetFields() {
			all[version] = fields
		}
	}
	return all
}

// managed copies a scope for a subresource and adds its field manager.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.scopeWithFieldManager; compare at each upgrade.
func managed(from *handlers.RequestScope, types managedfields.TypeConverter, subresource string, resets map[fieldpath.APIVersion]*fieldpath.Set) (*handlers.RequestScope, error) {
	scope := *from
	scope.Subresource = subresource
	var err error
	scope.FieldManager, err = managedfields.NewDefaultCRDFieldManager(types, scope.Convertor, scope.Defaulter, scope.Creater,
		scope.Kind, scope.HubGroupVersion, subresource, fieldpath.NewExcludeFilterSetMap(resets))
	if err != nil {
		return nil, err
	}
	return &scope, nil
}

// newScaleSerializer makes the serializer of Scale, which all definitions share.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func newScaleSerializer() runtime.NegotiatedSerializer {
	options := []serializer.CodecFactoryOptionsMutator{
		serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf(),
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		options = append(options, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	return serializer.NewCodecFactory(scale.NewScaleConverter().Scheme(), options...)
}
