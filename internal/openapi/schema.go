package openapi

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

// builtinProperties are the properties that Kubernetes adds to objects and to the objects
// embedded in them, as they are in a sample.
type builtinProperties struct {
	root, embedded map[string]spec.Schema
	// encodedRoot and encodedEmbedded are the same as JSON.
	encodedRoot, encodedEmbedded []encodedProperty
}

// builtinNames are in the order in which they become required.
var builtinNames = []string{"kind", "apiVersion", "metadata"}

func newBuiltinProperties(sample *spec.Schema) (builtinProperties, error) {
	n := builtinProperties{root: map[string]spec.Schema{}, embedded: map[string]spec.Schema{}}
	for _, name := range builtinNames {
		root, ok := sample.Properties[name]
		embedded, too := sample.Properties[exemplarEmbedded].Properties[name]
		if !ok || !too {
			return builtinProperties{}, fmt.Errorf("no property %s in a sample's schema", name)
		}
		n.root[name], n.embedded[name] = root, embedded
	}
	var err error
	if n.encodedRoot, err = encodeProperties(n.root); err != nil {
		return builtinProperties{}, err
	}
	n.encodedEmbedded, err = encodeProperties(n.embedded)
	return n, err
}

// structuralSchema is the schema of a version, nil if it has none that can be
// published.
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

// schemaV2 is the published schema of a kind, without defaults.
func (n builtinProperties) schemaV2(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Schema, error) {
	s, err := structuralSchema(full, version)
	if err != nil {
		return nil, err
	}
	out := new(spec.Schema).Typed("object", "")
	if s != nil && !s.XPreserveUnknownFields && !full.Spec.PreserveUnknownFields {
		out = openapiv2.ToStructuralOpenAPIV2(s).ToKubeOpenAPI()
		roundValues(out)
		n.extend(out, true)
	}
	addIdentity(out, full, version)
	return handler.PruneDefaultsSchema(out), nil
}

func (n builtinProperties) schemaV3(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Schema, error) {
	s, err := structuralSchema(full, version)
	if err != nil {
		return nil, err
	}
	out := new(spec.Schema).Typed("object", "")
	if s != nil {
		out = s.ToKubeOpenAPI()
		n.extend(out, false)
	}
	addIdentity(out, full, version)
	return builderutil.WrapRefs(out), nil
}

// addIdentity adds what identifies the kind.
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

func (n builtinProperties) extend(s *spec.Schema, v2 bool) {
	for name, property := range n.root {
		s.SetProperty(name, property)
	}
	n.extendEmbedded(s, v2)
}

// extendEmbedded adds to the objects embedded in s, and to s if it is one. What
// keeps unknown fields stays as it is in v2, where a property that is named
// makes kubectl refuse the others.
func (n builtinProperties) extendEmbedded(s *spec.Schema, v2 bool) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		n.extendEmbedded(&property, v2)
		s.Properties[name] = property
	}
	if s.Items != nil {
		n.extendEmbedded(s.Items.Schema, v2)
	}
	if s.AdditionalProperties != nil {
		n.extendEmbedded(s.AdditionalProperties.Schema, v2)
	}
	if keeps, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); keeps && v2 {
		return
	}
	if whole, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !whole {
		return
	}
	for name, property := range n.embedded {
		s.SetProperty(name, property)
	}
	for _, name := range builtinNames[:2] {
		s.Required = withRequired(s.Required, name)
	}
}

// withRequired leaves the given slice alone, which the definition may share.
func withRequired(required []string, name string) []string {
	for _, r := range required {
		if r == name {
			return required
		}
	}
	return append(required[:len(required):len(required)], name)
}
