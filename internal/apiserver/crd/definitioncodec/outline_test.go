package definitioncodec

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/apiserver/crd/definitiontest"
)

// outlines is the codec that the tests use.
var outlines = OutlineCodec{apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)}

// outlineOf decodes an outline.
func outlineOf(tb testing.TB, stored []byte) *apiextensions.CustomResourceDefinition {
	tb.Helper()
	definition := &apiextensions.CustomResourceDefinition{}
	if _, _, err := outlines.Decode(stored, nil, definition); err != nil {
		tb.Fatal(err)
	}
	return definition
}

// TestOutlinesAreStoredAsDefinitions changes random definitions, except their schemas, as
// outlines and as decoded definitions. Both must be stored as the same bytes.
func TestOutlinesAreStoredAsDefinitions(t *testing.T) {
	t.Parallel()
	random := definitiontest.Random(t)
	marked := 0
	for i := range 2000 {
		made := random()
		version := v1beta1.SchemeGroupVersion
		if i%10 == 0 {
			version = apiextensionsv1.SchemeGroupVersion // such a definition becomes no outline
		}
		text := definitiontest.EncodeStored(t, made, version)
		decoded, _ := definitiontest.DecodeStored(t, text)
		outline := outlineOf(t, text)
		if strings.Contains(string(mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), outline)), outlineMark) {
			marked++
		}
		back, err := WithSchemas(outline)
		if err != nil || !reflect.DeepEqual(back, decoded) {
			t.Fatalf("WithSchemas returns\n%+v\nwant\n%+v; %v", back, decoded, err)
		}
		for _, definition := range []*apiextensions.CustomResourceDefinition{decoded, outline} {
			definition.Labels = map[string]string{"a": `"openAPIV3Schema":{}`}
			definition.Status.Conditions = append(definition.Status.Conditions, apiextensions.CustomResourceDefinitionCondition{Type: "New", Message: "}{"})
		}
		want := mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), decoded)
		// A copy, as the store makes them.
		if got := mustEncode(t, outlines, outline.DeepCopy()); !bytes.Equal(got, want) {
			t.Fatalf("stored\n%s\nwant\n%s", got, want)
		}
	}
	if marked < 500 {
		t.Errorf("%d of 2000 definitions had an outline", marked)
	}
}

func mustEncode(tb testing.TB, codec runtime.Encoder, definition *apiextensions.CustomResourceDefinition) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := codec.Encode(definition, &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestMixedOutlineIsStored replaces one of an outline's two schemas and stores the
// result.
func TestMixedOutlineIsStored(t *testing.T) {
	t.Parallel()
	definition := definitiontest.Wide(3)
	definition.Name = "things.a.example"
	other := *definition.Spec.Versions[0].DeepCopy()
	other.Name, other.Storage = "v2", false
	other.Schema.OpenAPIV3Schema.Description = "another"
	definition.Spec.Versions = append(definition.Spec.Versions, other)
	text := definitiontest.EncodeStored(t, definition, v1beta1.SchemeGroupVersion)
	decoded, _ := definitiontest.DecodeStored(t, text)
	outline := outlineOf(t, text)
	for _, d := range []*apiextensions.CustomResourceDefinition{decoded, outline} {
		d.Spec.Versions[1].Schema.OpenAPIV3Schema = &apiextensions.JSONSchemaProps{Type: "object", Description: "new"}
	}
	want := mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), decoded)
	if got := mustEncode(t, outlines, outline); !bytes.Equal(got, want) {
		t.Fatalf("stored\n%s\nwant\n%s", got, want)
	}
}
