package fill

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const projectDefinition = `{{ template }}
---
kind: ConfigMap
apiVersion: v1
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: proxies.example.org
  annotations: {controller-gen.kubebuilder.io/version: v0.17.0}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: proxies, singular: proxy, kind: Proxy, listKind: ProxyList}
  conversion: {strategy: Webhook}
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size, mode]
            properties:
              size: {type: string, pattern: "^[0-9]+(Mi|Gi)$"}
              mode: {type: string, enum: [fast, slow]}
              replicas: {type: integer, minimum: 3, maximum: 5}
              port: {x-kubernetes-int-or-string: true}
              hosts: {type: array, minItems: 2, items: {type: string, maxLength: 4}}
              class: {type: string, default: none}
          status: {type: object, properties: {phase: {type: string}}}
`

// TestDefinitionsOfProjects reads definitions among other files, and makes objects that their
// schemas take.
func TestDefinitionsOfProjects(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/crds.yaml": projectDefinition, "README.md": "kind: CustomResourceDefinition"} {
		if err := os.MkdirAll(filepath.Join(dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	definitions, err := ReadDefinitions([]string{dir})
	if err != nil || len(definitions) != 1 {
		t.Fatalf("read %d definitions: %v", len(definitions), err)
	}
	g, err := NewGenerator(Shape{Namespaces: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := definitionSource{shapeSource{g, g.Shape()}, definitions, 5}
	definition, err := s.object(context.Background(), KindCRD, 0)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(definition); strings.Contains(string(text), "Webhook") || !strings.Contains(string(text), LabelSeed) || !strings.Contains(string(text), "v1alpha1") {
		t.Errorf("the definition is %s", text)
	}
	for i := range s.count(KindCustomObject) {
		object := s.customObject(i)
		spec := object.asMap()["spec"].(map[string]any)
		replicas, hosts := spec["replicas"].(int64), spec["hosts"].([]any)
		if spec["size"] != "1Gi" || spec["mode"] != "fast" && spec["mode"] != "slow" || replicas < 3 || replicas > 5 || len(hosts) != 2 || len(hosts[0].(string)) > 4 || spec["class"] != "none" || object.asMap()["status"] != nil {
			t.Errorf("object %d is %v", i, object.asMap())
		}
		if fallback := object.fallback(); len(fallback.asMap()["spec"].(map[string]any)) != 2 || fallback.GetName() != object.GetName() || fallback.path != "/apis/example.org/v1/namespaces/"+object.GetNamespace()+"/proxies" {
			t.Errorf("the fallback object %d is %v at %s", i, fallback.asMap(), fallback.path)
		}
	}
	if _, err := ReadDefinitions([]string{filepath.Join(dir, "README.md")}); err == nil || !strings.Contains(err.Error(), "no CustomResourceDefinition") {
		t.Errorf("a file without definitions: %v", err)
	}
}
