package publish

import (
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// Shape is all that the paths of a version depend on besides its names.
type Shape struct {
	namespaced, status, scale, selectable bool
}

// ShapeOf returns the Shape of a version of a definition.
func ShapeOf(scope apiextensionsv1.ResourceScope, v crd.Version) Shape {
	return Shape{
		namespaced: scope == apiextensionsv1.NamespaceScoped,
		status:     v.Status,
		scale:      v.Scale,
		selectable: len(v.SelectableFields) > 0 && selectableFieldsEnabled(),
	}
}

// selectableFieldsEnabled reports whether documents list selectable fields.
func selectableFieldsEnabled() bool {
	return utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CustomResourceFieldSelectors)
}

func v2Options() builder.Options {
	return builder.Options{V2: true, IncludeSelectableFields: selectableFieldsEnabled()}
}

func v3Options() builder.Options {
	return builder.Options{IncludeSelectableFields: selectableFieldsEnabled()}
}

// The exemplar's names occur nowhere in a document but in the places of a custom
// resource's names.
const (
	exemplarGroup    = "qqgroup.zz"
	ExemplarVersion  = "v7qq"
	exemplarPlural   = "kxplurals"
	exemplarKind     = "Kxkind"
	exemplarListKind = "Kxlisting"
	exemplarField    = "qqfield"
	// ExemplarModels is the prefix of the names of the exemplar's schemas, ExemplarPaths
	// the prefix of its paths.
	ExemplarModels = "zz.qqgroup." + ExemplarVersion + "."
	ExemplarPaths  = "/apis/" + exemplarGroup + "/"
	// exemplarEmbedded is a property that holds a whole object.
	exemplarEmbedded = "embedded"
)

// Exemplar returns a definition of the Shape. Its schema has one object with built-in
// properties inside the root.
func (s Shape) Exemplar() *apiextensionsv1.CustomResourceDefinition {
	object := apiextensionsv1.JSONSchemaProps{Type: "object"}
	embedded := object
	embedded.XEmbeddedResource = true
	embedded.Properties = map[string]apiextensionsv1.JSONSchemaProps{"spec": object}
	root := object
	root.Properties = map[string]apiextensionsv1.JSONSchemaProps{exemplarEmbedded: embedded}
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: ExemplarVersion, Served: true, Storage: true,
		Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		Subresources: &apiextensionsv1.CustomResourceSubresources{},
	}
	if s.status {
		version.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	if s.scale {
		version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{}
	}
	if s.selectable {
		version.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: "." + exemplarField}}
	}
	out := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: exemplarGroup, Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: exemplarPlural, Kind: exemplarKind, ListKind: exemplarListKind,
		},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
	}}
	if s.namespaced {
		out.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	return out
}

// BuildV2 returns the v2 spec of one version as Kubernetes builds it and prunes defaults
// from it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi.createSpecCache; compare at each upgrade.
func BuildV2(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Swagger, error) {
	built, err := builder.BuildOpenAPIV2(full, version, v2Options())
	if err != nil {
		return nil, fmt.Errorf("build OpenAPI v2 of %s: %w", full.Name, err)
	}
	built.Definitions = handler.PruneDefaults(built.Definitions)
	return built, nil
}

// BuildV3 returns the v3 spec of one version as Kubernetes builds it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapiv3.Controller.buildV3Spec; compare at each upgrade.
func BuildV3(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec3.OpenAPI, error) {
	built, err := builder.BuildOpenAPIV3(full, version, v3Options())
	if err != nil {
		return nil, fmt.Errorf("build OpenAPI v3 of %s: %w", full.Name, err)
	}
	return built, nil
}

// ModelPrefix returns the prefix of the names of a group version's schemas.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.gvkToModelName; compare at each upgrade.
func ModelPrefix(group, version string) string {
	parts := strings.Split(group, ".")
	var name strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		name.WriteString(parts[i])
		name.WriteByte('.')
	}
	return name.String() + version + "."
}

// ThroughJSON encodes a spec and decodes it again, as Kubernetes' aggregator does.
func ThroughJSON(s *spec.Swagger) (*spec.Swagger, error) {
	plain, err := s.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	out := &spec.Swagger{}
	if err := out.UnmarshalJSON(plain); err != nil {
		return nil, fmt.Errorf("decode spec: %w", err)
	}
	return out, nil
}

// HeadV3 is the beginning of v3 documents of custom resources, up to the entries of their
// paths.
var HeadV3 = sync.OnceValues(func() (string, error) {
	built, err := BuildV3(Shape{}.Exemplar(), ExemplarVersion)
	if err != nil {
		return "", err
	}
	head, err := (&spec3.OpenAPI{Version: built.Version, Info: built.Info}).MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("encode head of a v3 document: %w", err)
	}
	entries, err := ObjectEntries(head)
	if err != nil {
		return "", err
	}
	return "{" + entries + `,"paths":{`, nil
})

// buildPublishedV2 is BuildV2 after Kubernetes' aggregator has decoded and encoded the
// spec, which sorts the keys of extensions.
func buildPublishedV2(full *apiextensionsv1.CustomResourceDefinition, version string) (*spec.Swagger, error) {
	built, err := BuildV2(full, version)
	if err != nil {
		return nil, err
	}
	return ThroughJSON(built)
}
