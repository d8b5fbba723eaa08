package fill

import (
	"cmp"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CRDGroupSuffix is the suffix of all API groups in which fill creates
// definitions.
const CRDGroupSuffix = ".fill.millrace.dev"

const (
	crdVersion = "v1"
	crdAPI     = "/apis/apiextensions.k8s.io/v1"
	// One definition in definitionsPerRule has validation rules.
	definitionsPerRule = 10
)

// Definition holds the names of one custom resource definition that fill creates.
type Definition struct {
	Group string
	// Version is the served version. Empty means v1.
	Version string
	Kind    string
	// Plural is the resource's name in API paths.
	Plural    string
	ShortName string
}

// Name returns the object name of the CustomResourceDefinition.
func (d Definition) Name() string { return d.Plural + "." + d.Group }

// Path returns the API path of the custom objects in a namespace. An empty
// namespace means all namespaces.
func (d Definition) Path(namespace string) string {
	path := "/apis/" + d.Group + "/" + cmp.Or(d.Version, crdVersion)
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + d.Plural
}

// Definition returns the names of definition i. Each name contains both the seed
// and i, so that names are unique across all groups and seeds.
func (g *Generator) Definition(i int) Definition {
	id := fmt.Sprintf("%dn%d", g.shape.Seed, i)
	var kind strings.Builder
	for part := range strings.SplitSeq(g.words.apps[i%len(g.words.apps)], "-") {
		kind.WriteString(title(part))
	}
	kind.WriteString(id)
	return Definition{
		Group:     fmt.Sprintf("g%03d%s", i%max(g.shape.Groups, 1), CRDGroupSuffix),
		Kind:      kind.String(),
		Plural:    plural(kind.String()),
		ShortName: "f" + id,
	}
}

// plural returns the resource name of a kind.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

// title returns a word, which must be ASCII, with its first letter in upper case.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// CRD returns definition i. It is namespaced and has a status, two printer columns
// and a selectable field. Its spec has Shape.Properties properties, including
// nested ones. Every tenth definition has validation rules.
func (g *Generator) CRD(i int) *apiextv1.CustomResourceDefinition {
	d := g.Definition(i)
	return &apiextv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   d.Name(),
			Labels: map[string]string{LabelSeed: g.seedLabel()},
		},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: d.Group,
			Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{
				Plural: d.Plural, Singular: strings.ToLower(d.Kind), ShortNames: []string{d.ShortName},
				Kind: d.Kind, ListKind: d.Kind + "List",
			},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: crdVersion, Served: true, Storage: true,
				Schema:       &apiextv1.CustomResourceValidation{OpenAPIV3Schema: g.crdSchema(i)},
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextv1.CustomResourceColumnDefinition{
					{Name: "Class", Type: "string", JSONPath: ".spec.class", Description: "Class of the resource."},
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
				},
				SelectableFields: []apiextv1.SelectableField{{JSONPath: ".spec.class"}},
			}},
		},
	}
}
