package openapi_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// shipped are modules with definitions that many clusters have. Their versions
// are in test/crds/definitions/go.mod.
var shipped = map[string]string{
	"sigs.k8s.io/gateway-api":                            "config/crd/experimental/*.yaml",
	"github.com/cert-manager/cert-manager":               "deploy/crds/*.yaml",
	"github.com/crossplane/crossplane/v2":                "cluster/crds/*.yaml",
	"github.com/prometheus-operator/prometheus-operator": "example/prometheus-operator-crd/*.yaml",
	"istio.io/api": "kubernetes/customresourcedefinitions.gen.yaml",
	"github.com/external-secrets/external-secrets": "config/crds/bases/*.yaml",
}

// shippedDefinitions reads a module's, as if they were established. What is not
// in the module cache is not fetched.
func shippedDefinitions(t *testing.T, module string) []*definition {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = "../../test/crds/definitions"
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		t.Skipf("module %s is not in the module cache: run `make modules` (%v)", module, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, shipped[module]))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s in %s: %v", shipped[module], dir, err)
	}
	var all []*definition
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(content, []byte("\n---")) {
			d := &definition{}
			if err := yaml.Unmarshal(document, d); err != nil {
				t.Fatalf("read %s: %v", file, err)
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
	}
	return all
}

// TestShippedIsUpstreams has the definitions of projects that many clusters have.
// All that Kubernetes stores are written from their text.
func TestShippedIsUpstreams(t *testing.T) {
	for module := range shipped {
		t.Run(module, func(t *testing.T) {
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
