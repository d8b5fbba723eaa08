package fill

import (
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CRDGroupSuffix ends the names of all API groups that fill makes definitions
// in.
const CRDGroupSuffix = ".fill.millrace.dev"

const (
	crdVersion = "v1"
	crdAPI     = "/apis/apiextensions.k8s.io/v1"
	// definitionsPerRule is how many definitions there are for each one with validation
	// rules.
	definitionsPerRule = 10
)

// Definition says what a custom resource definition of fill is called.
type Definition struct {
	// Group is its API group; its only version is v1.
	Group string
	Kind  string
	// Plural is the resource's name in API paths.
	Plural    string
	ShortName string
}

// Name is the name of the definition itself.
func (d Definition) Name() string { return d.Plural + "." + d.Group }

// Path is the API path of the custom objects in a namespace, or of those in all
// namespaces if it is empty.
func (d Definition) Path(namespace string) string {
	path := "/apis/" + d.Group + "/" + crdVersion
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + d.Plural
}

// Definition returns the names of definition i. They hold both the seed and i,
// so that no two of them meet, in one group or in all of them.
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

func plural(kind string) string { return strings.ToLower(kind) + "s" }

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// CRD returns definition i: namespaced, with a status, two printer columns and a
// selectable field. Its spec has Shape.Properties properties, nested ones
// counted. Every tenth has validation rules.
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
