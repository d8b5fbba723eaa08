package publish

import (
	"fmt"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
)

// benchmarkText returns a stored definition. Its schema has a hundred objects, with most of
// the fields that schemas have.
func benchmarkText(b *testing.B) []byte {
	b.Helper()
	limit, number, text := int64(10), 1.5, "atomic"
	objects := map[string]apiextensions.JSONSchemaProps{}
	for i := range 100 {
		value := apiextensions.JSON(map[string]any{"a": int64(i), "b": []any{"x<y", true, nil}})
		objects[fmt.Sprintf("object%02d", i)] = apiextensions.JSONSchemaProps{
			Type: "object", Description: fmt.Sprintf("Object %d is for \"you & me\":\nit has a few properties, as most objects have.", i),
			Default: &value, Required: []string{"name", "port"}, XMapType: &text,
			Properties: map[string]apiextensions.JSONSchemaProps{
				"name":  {Type: "string", Description: "Name must be unique.", MaxLength: &limit, Pattern: "^[a-z]+$"},
				"port":  {XIntOrString: true, Description: "Port to connect to.", AnyOf: []apiextensions.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}},
				"ratio": {Type: "number", Minimum: &number, Nullable: true},
				"list":  {Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
				"map": {Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{
					Allows: true, Schema: &apiextensions.JSONSchemaProps{Type: "string"},
				}},
			},
		}
	}
	no := false
	full := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "a.example", Scope: apiextensions.NamespaceScoped, PreserveUnknownFields: &no,
		Names:    apiextensions.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": {Type: "object", Properties: objects}},
		}},
	}}
	encoded, err := runtime.Encode(apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), full)
	if err != nil {
		b.Fatal(err)
	}
	return encoded
}

// BenchmarkPublish writes published schemas from a stored definition.
func BenchmarkPublish(b *testing.B) {
	stored := benchmarkText(b)
	made, err := newPathTemplateV3(Shape{})
	if err != nil {
		b.Fatal(err)
	}
	var schemas storedSchemas
	var written []byte
	n := resourceNames{group: "a.example", version: "v1", plural: "things", kind: "Thing", listKind: "ThingList"}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(stored)))
		b.ReportAllocs()
		for b.Loop() {
			if !schemas.read(stored, "v1") {
				b.Fatal("not read")
			}
		}
	})
	schema, ok := schemas.nodeFor("v1")
	if !ok || !schemas.structural(schema, true) {
		b.Fatal("not published")
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(stored)))
		b.ReportAllocs()
		for b.Loop() {
			p := schemaPublisher{schemaTree: &schemas.schemaTree, root: made.builtin.encodedRoot, embedded: made.builtin.encodedEmbedded}
			written = p.kind(written[:0], schema, n.encodedIdentity(false))
		}
	})
	document := ProtoV3.open + ProtoV3.between + `"a.example.v1.Thing":` + string(written) + ProtoV3.shut
	b.Run("yaml", func(b *testing.B) {
		b.SetBytes(int64(len(document)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseYAML(document, true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
