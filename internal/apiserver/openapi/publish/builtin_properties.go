package publish

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	"k8s.io/apiserver/pkg/endpoints"
	builderutil "k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// builtinProperties are the properties that Kubernetes adds to the root of a schema and to
// the objects embedded in it. They are taken from the exemplar.
type builtinProperties struct {
	root, embedded map[string]spec.Schema
	// encodedRoot and encodedEmbedded are the same as JSON.
	encodedRoot, encodedEmbedded []encodedProperty
}

// builtinNames are in the order in which Kubernetes makes them required.
var builtinNames = []string{"kind", "apiVersion", "metadata"}

// newBuiltinProperties takes the properties from the exemplar's schema.
func newBuiltinProperties(exemplar *spec.Schema) (builtinProperties, error) {
	b := builtinProperties{root: map[string]spec.Schema{}, embedded: map[string]spec.Schema{}}
	for _, name := range builtinNames {
		root, ok := exemplar.Properties[name]
		embedded, too := exemplar.Properties[exemplarEmbedded].Properties[name]
		if !ok || !too {
			return builtinProperties{}, fmt.Errorf("no property %s in an exemplar's schema", name)
		}
		b.root[name], b.embedded[name] = root, embedded
	}
	var err error
	if b.encodedRoot, err = encodeProperties(b.root); err != nil {
		return builtinProperties{}, err
	}
	b.encodedEmbedded, err = encodeProperties(b.embedded)
	return b, err
}

// structuralSchema returns the schema of a version. It returns nil if the version has no
// schema that Kubernetes publishes.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.generateBuilder; compare at each upgrade.
func structuralSchema(full *apiextensionsv1.CustomResourceDefinition, version string) (*structuralschema.Structural, error) {
	found, err := apihelpers.GetSchemaForVersion(full, version)
	if err != nil {
		return nil, fmt.Errorf("find schema: %w", err)
	}
	if found == nil || found.OpenAPIV3Schema == nil {
		return nil, nil
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(found, internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	if validation.SchemaHasInvalidTypes(internal.OpenAPIV3Schema) {
		return nil, nil
	}
	s, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil || len(structuralschema.ValidateStructural(nil, s)) > 0 {
		return nil, nil // Kubernetes publishes those as if there were none
	}
	return s.Unfold(), nil
}

// schemaV2 returns the published v2 schema of a kind, without defaults.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildKubeNative; compare at each upgrade.
func (b builtinProperties) schemaV2(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Schema, error) {
	s, err := structuralSchema(full, version)
	if err != nil {
		return nil, err
	}
	out := new(spec.Schema).Typed("object", "")
	if s != nil && !s.XPreserveUnknownFields && !full.Spec.PreserveUnknownFields {
		out = openapiv2.ToStructuralOpenAPIV2(s).ToKubeOpenAPI()
		roundValues(out)
		b.extend(out, true)
	}
	addIdentity(out, full, version)
	return handler.PruneDefaultsSchema(out), nil
}

// schemaV3 returns the published v3 schema of a kind.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildKubeNative; compare at each upgrade.
func (b builtinProperties) schemaV3(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Schema, error) {
	s, err := structuralSchema(full, version)
	if err != nil {
		return nil, err
	}
	out := new(spec.Schema).Typed("object", "")
	if s != nil {
		out = s.ToKubeOpenAPI()
		b.extend(out, false)
	}
	addIdentity(out, full, version)
	return builderutil.WrapRefs(out), nil
}

// addIdentity adds the extensions that name a kind and its selectable fields.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildKubeNative; compare at each upgrade.
func addIdentity(s *spec.Schema, full *apiextensionsv1.CustomResourceDefinition, version string) {
	s.AddExtension(endpoints.RouteMetaGVK, []any{map[string]any{
		"group": full.Spec.Group, "version": version, "kind": full.Spec.Names.Kind,
	}})
	if !selectableFieldsEnabled() {
		return
	}
	for _, v := range full.Spec.Versions {
		if v.Name == version && len(v.SelectableFields) > 0 {
			s.AddExtension(endpoints.RouteMetaSelectableFields, selectableExtension(jsonPaths(v.SelectableFields)))
		}
	}
}

// extend adds the properties to a root schema.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.addTypeMetaProperties; compare at each upgrade.
func (b builtinProperties) extend(s *spec.Schema, v2 bool) {
	for name, property := range b.root {
		s.SetProperty(name, property)
	}
	b.extendEmbedded(s, v2)
}

// extendEmbedded adds the properties to the objects embedded in s, and to s if it is one.
// In v2 an object that keeps unknown fields stays as it is: kubectl refuses all
// properties that are not listed.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.addEmbeddedProperties; compare at each upgrade.
func (b builtinProperties) extendEmbedded(s *spec.Schema, v2 bool) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		b.extendEmbedded(&property, v2)
		s.Properties[name] = property
	}
	if s.Items != nil {
		b.extendEmbedded(s.Items.Schema, v2)
	}
	if s.AdditionalProperties != nil {
		b.extendEmbedded(s.AdditionalProperties.Schema, v2)
	}
	if keeps, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); keeps && v2 {
		return
	}
	if whole, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !whole {
		return
	}
	for name, property := range b.embedded {
		s.SetProperty(name, property)
	}
	for _, name := range builtinNames[:2] {
		s.Required = withRequired(s.Required, name)
	}
}

// withRequired adds a name in a copy of the slice, which the definition may share.
func withRequired(required []string, name string) []string {
	for _, r := range required {
		if r == name {
			return required
		}
	}
	return append(required[:len(required):len(required)], name)
}
