package openapi_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/shipped"
)

// shippedDefinitions reads the definitions of a module, and makes them established.
func shippedDefinitions(t *testing.T, module shipped.Module) []*definition {
	t.Helper()
	var all []*definition
	for _, document := range module.Documents(t, "../../../test/equal/crds/definitions") {
		d := &definition{}
		if err := yaml.Unmarshal(document, d); err != nil {
			t.Fatalf("read a document of %s: %v", module.Path, err)
		}
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
		d.UID, d.Generation = types.UID(d.Name), 1
		d.Status.AcceptedNames = d.Spec.Names
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		all = append(all, d)
	}
	return all
}

// TestShippedIsUpstreams publishes the definitions of projects that many clusters have.
// All that Kubernetes stores must be written from their text.
func TestShippedIsUpstreams(t *testing.T) {
	for name, module := range shipped.Modules {
		t.Run(name, func(t *testing.T) {
			all := shippedDefinitions(t, module)
			p := newPair(t, all, newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
			eventually(t, p.wrong)
			p.compareMessages()
			t.Logf("%d definitions", len(all))
			for name := range p.catalog.decoded {
				t.Errorf("%s is decoded", name)
			}
		})
	}
}
