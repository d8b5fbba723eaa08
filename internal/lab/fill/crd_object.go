package fill

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxValues bounds the number of optional properties that are set in one custom
// object.
const maxValues = 60

// CustomObject returns custom object i. Its definition is number i modulo
// Shape.CRDs.
func (g *Generator) CustomObject(i int) *unstructured.Unstructured {
	crds := max(g.shape.CRDs, 1)
	return g.CustomObjectOf(i%crds, g.namespaceName(i/crds%g.shape.Namespaces), fmt.Sprintf("fill-%d-%07d", g.shape.Seed, i))
}

// CustomObjectOf returns a custom object that is valid under the schema of
// definition number crd. The object's values depend on the seed, crd and name.
func (g *Generator) CustomObjectOf(crd int, namespace, name string) *unstructured.Unstructured {
	d := g.Definition(crd)
	draw := newStream(g.shape.Seed, drawCustomObject, crd)
	for _, c := range []byte(name) {
		draw.state = splitMix64(draw.state + uint64(c))
	}
	schema := g.crdSchema(crd).Properties["spec"]
	class := crdClasses()[draw.intBelow(len(crdClasses()))]
	replicas := int64(1 + draw.intBelow(9))
	delete(schema.Properties, "class")
	delete(schema.Properties, "replicas")
	delete(schema.Properties, "maxReplicas")
	v := valueMaker{text: g.envText, draw: &draw, remaining: maxValues}
	spec := v.objectValue(schema)
	spec["class"], spec["replicas"], spec["maxReplicas"] = class, replicas, replicas+10
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": d.Group + "/" + crdVersion,
		"kind":       d.Kind,
		"metadata": map[string]any{
			"name": name, "namespace": namespace,
			"labels": map[string]any{LabelSeed: g.seedLabel(), "app.kubernetes.io/managed-by": "Helm"},
		},
		"spec": spec,
	}}
}

// valueMaker generates values that are valid under the schemas that schemaMaker generates.
type valueMaker struct {
	text      string // strings are excerpts of it
	draw      *stream
	remaining int // number of optional values that it may still generate
}

func (v *valueMaker) objectValue(schema apiextv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if v.remaining == 0 {
			break
		}
		object[name] = v.value(schema.Properties[name])
	}
	return object
}

// value returns a value for a schema, whose type schemaMaker must generate.
func (v *valueMaker) value(schema apiextv1.JSONSchemaProps) any {
	switch {
	case schema.Type == "array":
		return []any{v.value(*schema.Items.Schema)}
	case len(schema.Properties) > 0:
		return v.objectValue(schema)
	}
	v.remaining = max(v.remaining-1, 0)
	switch schema.Type {
	case "integer":
		return int64(10 + v.draw.intBelow(10_000))
	case "boolean":
		return v.draw.intBelow(2) == 0
	case "object":
		return map[string]any{"key": v.phrase()}
	case "string":
		return v.stringValue(schema)
	}
	return int64(v.draw.intBelow(100)) // an integer or a string
}

func (v *valueMaker) stringValue(schema apiextv1.JSONSchemaProps) string {
	if len(schema.Enum) > 0 {
		return strings.Trim(string(schema.Enum[v.draw.intBelow(len(schema.Enum))].Raw), `"`)
	}
	for _, format := range formats() {
		if format[0] == schema.Format {
			return format[1]
		}
	}
	if schema.Pattern != "" {
		return v.draw.hex(16)
	}
	return v.phrase()
}

func (v *valueMaker) phrase() string { return excerpt(v.text, v.draw, 10+v.draw.intBelow(30)) }
