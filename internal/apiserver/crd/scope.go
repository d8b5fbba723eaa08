package crd

import (
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// newScope makes the scope of Kubernetes' handlers for a version, without the table
// convertor and the field manager.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func (s *servedDefinition) newScope(row *Version) *handlers.RequestScope {
	kind := s.kind(row.Name)
	parameters := runtime.NewScheme()
	parameters.AddUnversionedTypes(kind.GroupVersion(),
		&metav1.ListOptions{}, &metav1.GetOptions{}, &metav1.DeleteOptions{})
	typer := typer{ObjectTyper: parameters}
	types := mediaTypes(typer)
	return &handlers.RequestScope{
		Namer:          handlers.ContextBasedNaming{Namer: meta.NewAccessor(), ClusterScoped: !s.def.Namespaced()},
		Serializer:     negotiatedSerializer{s, types, lazyConvertor{served: s}},
		ParameterCodec: runtime.NewParameterCodec(parameters),
		// Custom resources have no protobuf encoding. Tables and metadata have one.
		StandardSerializers: slices.DeleteFunc(slices.Clone(types), func(t runtime.SerializerInfo) bool {
			return t.MediaType == runtime.ContentTypeProtobuf
		}),
		Creater:                  creator{},
		Convertor:                lazyConvertor{served: s},
		UnsafeConvertor:          lazyConvertor{served: s, unsafe: true},
		Defaulter:                lazyDefaulter{s, parameters},
		Typer:                    typer,
		EquivalentResourceMapper: s.equivalents(),
		Resource:                 s.resource(row.Name),
		Kind:                     kind,
		HubGroupVersion:          kind.GroupVersion(),
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		Authorizer:               s.server.authorizer,
		MaxRequestBodyBytes:      s.server.maxBody,
	}
}

// equivalents registers the versions of a resource as equivalent: they are the same objects.
func (s *servedDefinition) equivalents() runtime.EquivalentResourceMapper {
	registry := runtime.NewEquivalentResourceRegistry()
	for _, v := range s.def.Versions {
		resource := s.resource(v.Name)
		registry.RegisterKindFor(resource, "", s.kind(v.Name))
		if v.Status {
			registry.RegisterKindFor(resource, "status", s.kind(v.Name))
		}
		if v.Scale {
			registry.RegisterKindFor(resource, "scale", autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		}
	}
	return registry
}

// typer knows the kinds of objects without Go types, and of the options that have one.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.UnstructuredObjectTyper; compare at each upgrade.
type typer struct{ runtime.ObjectTyper }

// ObjectKinds implements runtime.ObjectTyper.
func (t typer) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return crdserverscheme.NewUnstructuredObjectTyper().ObjectKinds(obj)
	}
	return t.ObjectTyper.ObjectKinds(obj)
}

// Recognizes implements runtime.ObjectTyper.
func (t typer) Recognizes(gvk schema.GroupVersionKind) bool {
	return t.ObjectTyper.Recognizes(gvk) || crdserverscheme.NewUnstructuredObjectTyper().Recognizes(gvk)
}

// mediaTypes returns the media types of custom resources, and of tables and metadata about
// them.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor; compare at each upgrade.
func mediaTypes(typer runtime.ObjectTyper) []runtime.SerializerInfo {
	creater := creator{}
	text := func(o json.SerializerOptions) *json.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, creater, typer, o)
	}
	binary := protobuf.NewSerializerWithOptions(creater, typer, protobuf.SerializerOptions{StreamingCollectionsEncoding: true})
	types := []runtime.SerializerInfo{
		{
			MediaType: "application/json", MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
			Serializer:       text(json.SerializerOptions{StreamingCollectionsEncoding: true}),
			PrettySerializer: text(json.SerializerOptions{Pretty: true}),
			StrictSerializer: text(json.SerializerOptions{Strict: true, StreamingCollectionsEncoding: true}),
			StreamSerializer: &runtime.StreamSerializerInfo{
				EncodesAsText: true, Serializer: text(json.SerializerOptions{}), Framer: json.Framer,
			},
		},
		{
			MediaType: "application/yaml", MediaTypeType: "application", MediaTypeSubType: "yaml", EncodesAsText: true,
			Serializer:       text(json.SerializerOptions{Yaml: true}),
			StrictSerializer: text(json.SerializerOptions{Yaml: true, Strict: true}),
		},
		{
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			// Kubernetes has no strict serializer here, and its handlers of writes panic for a body
			// in protobuf. With this one they refuse such bodies.
			Serializer: binary, StrictSerializer: binary,
			StreamSerializer: &runtime.StreamSerializerInfo{
				Serializer: protobuf.NewRawSerializer(creater, typer), Framer: protobuf.LengthDelimitedFramer,
			},
		},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		types = append(types, cbor.NewSerializerInfo(creater, typer))
	}
	return types
}

// warning returns the warning for clients of a deprecated version, and "" for others.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.defaultDeprecationWarning; compare at each upgrade.
func (d *Definition) warning(v *Version) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	newest := ""
	for _, other := range d.Versions {
		if other.Served && !other.Deprecated && utilversion.CompareKubeAwareVersionStrings(other.Name, v.Name) > 0 &&
			(newest == "" || utilversion.CompareKubeAwareVersionStrings(other.Name, newest) > 0) {
			newest = other.Name
		}
	}
	warning := fmt.Sprintf("%s/%s %s is deprecated", d.Group, v.Name, d.Wanted.Kind)
	if newest != "" {
		warning += fmt.Sprintf("; use %s/%s %s", d.Group, newest, d.Wanted.Kind)
	}
	return warning
}
