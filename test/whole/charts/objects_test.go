package charts

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/harness"
	"github.com/millrace/millrace/test/support/shipped"
)

// objects returns the objects of a golden file.
func (c chartCase) objects(t *testing.T) []runtime.Object {
	t.Helper()
	return decoded(t, lengthened(t).Replace(string(must(os.ReadFile(c.golden()))(t))))
}

// decoded returns the objects of documents. Fields that Kubernetes does not know are errors.
// Custom resources are unstructured.
func decoded(t *testing.T, documents string) (objects []runtime.Object) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(documents))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		check(t, err)
		var content map[string]any
		check(t, yaml.UnmarshalStrict(document, &content))
		if content == nil {
			continue // comments
		}
		object, _, err := strict.Decode(document, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			object = &unstructured.Unstructured{Object: content}
		case err != nil:
			t.Fatalf("decode: %v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// TestObjectsAreStrict decodes what charts make with Kubernetes' types, and has the program
// parse the flags of its containers.
func TestObjectsAreStrict(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		t.Run(string(c), func(t *testing.T) {
			var pod *corev1.PodSpec
			for _, object := range c.objects(t) {
				switch o := object.(type) {
				case *appsv1.Deployment:
					pod = &o.Spec.Template.Spec
				case *appsv1.StatefulSet:
					pod = &o.Spec.Template.Spec
				}
			}
			container := pod.Containers[0]
			for _, mount := range container.VolumeMounts {
				if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
					t.Errorf("it mounts %s, which is no volume", mount.Name)
				}
			}
			command := slices.Concat(container.Command, container.Args, []string{"--help"})
			if command[0] == "millrace" {
				command = command[1:]
			}
			if output, code := harness.Run(t, command...); code != 0 {
				t.Errorf("%v: %s", command, output)
			}
		})
	}
}

// TestMonitorsAreStrict validates objects for the Prometheus operator by its definitions.
func TestMonitorsAreStrict(t *testing.T) {
	t.Parallel()
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, document := range shipped.Modules["prometheus_operator"].Documents(t, "../../equal/crds/definitions") {
		var definition apiextensionsv1.CustomResourceDefinition
		check(t, yaml.Unmarshal(document, &definition))
		definitions[definition.Spec.Names.Kind] = &definition
	}
	found := map[string]bool{}
	for _, c := range cases(t) {
		for _, object := range c.objects(t) {
			if custom, ok := object.(*unstructured.Unstructured); ok {
				found[custom.GetKind()] = true
				validate(t, definitions[custom.GetKind()], custom.Object)
			}
		}
	}
	if !found["ServiceMonitor"] || !found["PrometheusRule"] {
		t.Errorf("found only %v", found)
	}
}

// validate checks that an object fits its definition, and has no other fields.
func validate(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition, object map[string]any) {
	t.Helper()
	var schema apiextensions.JSONSchemaProps
	check(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil))
	validator, _, err := validation.NewSchemaValidator(&schema)
	check(t, err)
	if errs := validation.ValidateCustomResource(nil, object, validator); len(errs) > 0 {
		t.Errorf("%s: %v", definition.Name, errs.ToAggregate())
	}
	structural := must(structuralschema.NewStructural(&schema))(t)
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	if unknown := pruning.PruneWithOptions(object, structural, true, options); len(unknown) > 0 {
		t.Errorf("%s: it has no fields %v", definition.Name, unknown)
	}
}
