package crd

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// warm processes a definition, so that Kubernetes and cel-go allocate at the start what
// they allocate once: the parser of rules, the types of OpenAPI. These are thousands of
// small objects that stay for ever. If they were allocated while thousands of definitions
// are installed, the heap would be at its largest. Each of them would then keep one of its
// pages from being released.
func warm(ctx context.Context) error {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "warms.warm.millrace.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "warm.millrace.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "warms", Singular: "warm", Kind: "Warm", ListKind: "WarmList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:         "object",
					Properties:   map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "string", MaxLength: new(int64(1))}},
					XValidations: apiextensionsv1.ValidationRules{{Rule: "!has(self.spec) || self.spec != ''"}},
				}},
			}},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsapiserver.Scheme.Convert(definition, internal, nil); err != nil {
		return err
	}
	if errs := validation.ValidateCustomResourceDefinition(ctx, internal); len(errs) > 0 {
		return fmt.Errorf("definition that only warms up: %w", errs.ToAggregate())
	}
	document, err := builder.BuildOpenAPIV3(definition, "v1", builder.Options{})
	if err != nil {
		return err
	}
	if _, err := document.MarshalJSON(); err != nil {
		return err
	}
	codec := apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	text, err := runtime.Encode(codec, internal)
	if err != nil {
		return err
	}
	_, err = runtime.Decode(codec, text)
	return err
}
