// Package definitiontest makes CustomResourceDefinitions for tests, and encodes and decodes them as
// Kubernetes does. It is for tests only.
package definitiontest

import (
	"fmt"
	"math/rand"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EncodeStored encodes a definition of any version as Kubernetes stores it in the version gv.
func EncodeStored(tb testing.TB, obj runtime.Object, gv schema.GroupVersion) []byte {
	tb.Helper()
	if v1, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsapiserver.Scheme.Convert(v1, internal, nil); err != nil {
			tb.Fatal(err)
		}
		obj = internal
	}
	encoded, err := runtime.Encode(apiextensionsapiserver.Codecs.LegacyCodec(gv), obj)
	if err != nil {
		tb.Fatal(err)
	}
	return encoded
}

// DecodeStored decodes a stored definition with Kubernetes' codec, to the internal type and to v1.
func DecodeStored(tb testing.TB, stored []byte) (*apiextensions.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinition) {
	tb.Helper()
	internal, v1 := &apiextensions.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DecodeInto(apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), stored, internal); err != nil {
		tb.Fatal(err)
	}
	if err := apiextensionsapiserver.Scheme.Convert(internal, v1, nil); err != nil {
		tb.Fatal(err)
	}
	return internal, v1
}

// Random returns a function that makes random definitions, as Kubernetes may have stored
// them. It logs its seed.
func Random(tb testing.TB) func() *apiextensions.CustomResourceDefinition {
	seed := rand.Int63()
	tb.Logf("seed %d", seed)
	f := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, apiextensionsfuzzer.Funcs), rand.NewSource(seed), apiextensionsapiserver.Codecs)
	return func() *apiextensions.CustomResourceDefinition {
		internal := &apiextensions.CustomResourceDefinition{}
		f.Fill(internal)
		internal.Name, internal.Namespace = "things.a.example", ""
		internal.Spec.Group = "a.example"
		return internal
	}
}

// Wide returns a definition without a name. The spec of its objects has that many properties.
func Wide(properties int) *apiextensionsv1.CustomResourceDefinition {
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	maxLength := int64(64)
	for i := range properties {
		p := apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &maxLength, Description: fmt.Sprintf("This says what the field of number %d is good for, in as many words as is usual.", i)}
		if i%10 == 0 {
			p.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.startsWith('a') || self.size() > 3", Message: "is neither"}}
		}
		all[fmt.Sprintf("field%d", i)] = p
	}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "a.example", Scope: apiextensionsv1.NamespaceScoped,
		Names:      apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: all},
			}},
		}}},
	}}
}
