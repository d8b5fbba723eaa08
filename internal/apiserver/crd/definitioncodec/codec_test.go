package definitioncodec

import (
	"bytes"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/apiserver/crd/definitiontest"
)

// removeUnknown removes from a schema the fields that our reader and writer do not know.
func removeUnknown(s *apiextensions.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.ID, s.Schema, s.Ref, s.Dependencies, s.Definitions, s.ExternalDocs = "", "", nil, nil, nil, nil
	s.AdditionalItems, s.PatternProperties = nil, nil
	if s.Items != nil {
		if s.Items.JSONSchemas = nil; s.Items.Schema == nil {
			s.Items = nil
		} else {
			removeUnknown(s.Items.Schema)
		}
	}
	if s.AdditionalProperties != nil {
		removeUnknown(s.AdditionalProperties.Schema)
	}
	removeUnknown(s.Not)
	for _, list := range [][]apiextensions.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			removeUnknown(&list[i])
		}
	}
	for name, p := range s.Properties {
		removeUnknown(&p)
		s.Properties[name] = p
	}
}

// decodeBoth decodes with our codec and with Kubernetes'.
func decodeBoth(tb testing.TB, stored []byte) (ours, theirs *apiextensions.CustomResourceDefinition, ourErr, theirErr error) {
	tb.Helper()
	codec := apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)
	ours, theirs = &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	_, _, ourErr = Codec{codec}.Decode(stored, nil, ours)
	_, _, theirErr = codec.Decode(stored, nil, theirs)
	return ours, theirs, ourErr, theirErr
}

// TestCodecDecodesAsKubernetes compares random definitions as both codecs decode them.
func TestCodecDecodesAsKubernetes(t *testing.T) {
	t.Parallel()
	random := definitiontest.Random(t)
	read, left := 0, 0
	for i := range 3000 {
		made := random()
		if i%4 > 0 {
			if made.Spec.Validation != nil {
				removeUnknown(made.Spec.Validation.OpenAPIV3Schema)
			}
			for i := range made.Spec.Versions {
				if v := made.Spec.Versions[i].Schema; v != nil {
					removeUnknown(v.OpenAPIV3Schema)
				}
			}
		}
		text := definitiontest.EncodeStored(t, made, v1beta1.SchemeGroupVersion)
		ours, theirs, err, other := decodeBoth(t, text)
		if err != nil || other != nil {
			t.Fatalf("%v, %v: %s", err, other, text)
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("decoded\n%s\nto\n%+v\nwant\n%+v", text, ours, theirs)
		}
		if _, ok := readSchemas(text); ok {
			read++
		} else {
			left++
		}
	}
	t.Logf("%d definitions read, %d left to Kubernetes", read, left)
	if read < 500 || left < 100 {
		t.Errorf("%d definitions were read, %d left to Kubernetes", read, left)
	}
}

// TestCodecEncodesAsKubernetes compares random definitions as both codecs encode them.
func TestCodecEncodesAsKubernetes(t *testing.T) {
	t.Parallel()
	random := definitiontest.Random(t)
	theirs := apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)
	check := func(definition *apiextensions.CustomResourceDefinition) (wrote bool) {
		t.Helper()
		want := mustEncode(t, theirs, definition)
		if got := mustEncode(t, Codec{theirs}, definition); !bytes.Equal(got, want) {
			t.Fatalf("stored\n%s\nwant\n%s", got, want)
		}
		texts, ok := writeSchemas(definition)
		return ok && len(texts) > 0
	}
	wrote, left := 0, 0
	for i := range 3000 {
		made := random()
		for version, schema := range Schemas(made) {
			if *schema != nil && i%4 > 0 {
				removeUnknown((*schema).OpenAPIV3Schema)
			} else if version == AllVersions && i%8 == 0 {
				*schema = nil
			}
		}
		if check(made) {
			wrote++
		} else {
			left++
		}
	}
	t.Logf("%d definitions written, %d left to Kubernetes", wrote, left)
	if wrote < 500 || left < 100 {
		t.Errorf("%d definitions were written, %d left to Kubernetes", wrote, left)
	}
	for _, text := range written {
		schema, definition := &apiextensionsv1.JSONSchemaProps{}, definitiontest.Wide(0)
		if err := yaml.Unmarshal([]byte(text), schema); err != nil {
			t.Fatal(err)
		}
		definition.Name, definition.Spec.Versions[0].Schema.OpenAPIV3Schema = "things.a.example", schema
		made, _ := definitiontest.DecodeStored(t, definitiontest.EncodeStored(t, definition, v1beta1.SchemeGroupVersion))
		if !check(made) {
			t.Errorf("left to Kubernetes: %s", text)
		}
	}
}

// written are schemas as people write them. Random ones have little in common with them.
var written = []string{`
type: object
description: "with \"quotes\", <angles>, ünïcode, a \\ and\na new line"
required: [spec]
properties:
  spec:
    type: object
    nullable: true
    x-kubernetes-map-type: atomic
    x-kubernetes-validations:
    - {rule: "self.a < self.b", message: wrong, reason: FieldValueInvalid, fieldPath: .a, optionalOldSelf: true}
    properties:
      a: {type: integer, format: int32, minimum: 0, maximum: 10.5, exclusiveMinimum: true, multipleOf: 2, default: 7}
      b: {type: number, default: 1.5, enum: [1, 2.5, 1e3, -4]}
      port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], default: "80%"}
      list: {type: array, minItems: 1, maxItems: 3, uniqueItems: true, items: {type: string, enum: [a, "b\"", ""]}, x-kubernetes-list-type: set}
      map: {type: object, additionalProperties: {type: string, pattern: "^[a-z]*$", minLength: 1, maxLength: 9}, minProperties: 1, maxProperties: 2}
      open: {type: object, additionalProperties: true, x-kubernetes-preserve-unknown-fields: true, default: {a: [1, null, {b: 1.0}]}}
      closed: {type: object, additionalProperties: false, x-kubernetes-embedded-resource: true}
      rows: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}
      either: {oneOf: [{type: string}], allOf: [{not: {type: string}}], title: t, example: {x: [true]}}
      empty: {}
`, `{}`, `type: object`,
}

// TestCodecReadsWrittenSchemas sees that our reader refuses none of them.
func TestCodecReadsWrittenSchemas(t *testing.T) {
	t.Parallel()
	for _, text := range written {
		for _, versions := range []int{1, 2} {
			made := definitiontest.Wide(0)
			made.Name = "things.a.example"
			for len(made.Spec.Versions) < versions {
				made.Spec.Versions = append(made.Spec.Versions, *made.Spec.Versions[0].DeepCopy())
			}
			if err := yaml.Unmarshal([]byte(text), made.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
				t.Fatal(err)
			}
			encoded := definitiontest.EncodeStored(t, made, v1beta1.SchemeGroupVersion)
			if _, ok := readSchemas(encoded); !ok {
				t.Errorf("not read: %s", encoded)
			}
			ours, theirs, err, other := decodeBoth(t, encoded)
			if err != nil || other != nil || !reflect.DeepEqual(ours, theirs) {
				t.Errorf("decoded\n%s\nto\n%+v\nwant\n%+v; %v, %v", encoded, ours, theirs, err, other)
			}
		}
	}
}

// BenchmarkDecode decodes a definition with a hundred properties.
func BenchmarkDecode(b *testing.B) {
	definition := definitiontest.Wide(100)
	definition.Name, definition.UID, definition.Status.StoredVersions = "things.a.example", "u", []string{"v1"}
	text := definitiontest.EncodeStored(b, definition, v1beta1.SchemeGroupVersion)
	theirs := apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)
	for name, codec := range map[string]runtime.Codec{"ours": Codec{theirs}, "theirs": theirs} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := codec.Decode(text, nil, &apiextensions.CustomResourceDefinition{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncode encodes a definition with a hundred properties, and decodes and encodes
// its outline.
func BenchmarkEncode(b *testing.B) {
	made := definitiontest.Wide(100)
	made.Name, made.UID, made.Status.StoredVersions = "things.a.example", "u", []string{"v1"}
	text := definitiontest.EncodeStored(b, made, v1beta1.SchemeGroupVersion)
	definition, _ := definitiontest.DecodeStored(b, text)
	theirs := apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)
	outline := outlineOf(b, text)
	b.Run("schemas", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := writeSchemas(definition); !ok {
				b.Fatal("not written")
			}
		}
	})
	for name, codec := range map[string]runtime.Codec{"ours": Codec{theirs}, "theirs": theirs} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustEncode(b, codec, definition)
			}
		})
	}
	b.Run("outline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mustEncode(b, outlines, outline)
			outlineOf(b, text)
		}
	})
}
