package many

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/harness"
)

const looms = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: looms.weaving.example.com
spec:
  group: weaving.example.com
  names: {plural: looms, singular: loom, kind: Loom, listKind: LoomList, shortNames: [lm], categories: [weaving]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.shuttles, statusReplicasPath: .status.shuttles}}
    additionalPrinterColumns:
    - {name: Cloth, type: string, jsonPath: .spec.cloth}
    - {name: Weft, type: string, jsonPath: .spec.weft, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: Loom weaves.
        properties:
          spec:
            type: object
            properties:
              cloth: {type: string, description: Cloth is what it makes., enum: [linen, wool]}
              weft: {type: string, default: plain}
              shuttles: {type: integer, minimum: 1}
          status:
            type: object
            properties:
              shuttles: {type: integer}
`

const loom = `apiVersion: weaving.example.com/v1
kind: Loom
metadata: {name: one, namespace: default}
spec: {cloth: linen, shuttles: 2}
`

// run runs kubectl and expects its output to hold something.
func (w *world) run(t *testing.T, wanted, command string, args ...string) string {
	t.Helper()
	args = append([]string{"kubectl", "--data-dir=" + w.DataDir}, append(strings.Fields(command), args...)...)
	output, code := harness.Run(t, args...)
	if code != 0 || !strings.Contains(output, wanted) {
		t.Fatalf("kubectl %s ended with code %d, want 0 and %q:\n%s", command, code, wanted, output)
	}
	return output
}

// kubectl does what people do with a definition, beside all others.
func (w *world) kubectl(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(content), 0o600))
		return "-f=" + path
	}
	w.run(t, "looms.weaving.example.com created", "apply", file("crd.yaml", looms))
	w.run(t, "condition met", "wait --for=condition=Established crd/looms.weaving.example.com --timeout=60s")
	w.run(t, "looms ", "api-resources --api-group=weaving.example.com")
	made := w.run(t, "", "apply", file("loom.yaml", loom))
	if !strings.Contains(made, "loom.weaving.example.com/one created") {
		t.Errorf("apply says %s", made)
	}
	w.run(t, "unchanged", "apply", file("loom.yaml", loom))
	w.run(t, "configured", "apply", file("loom.yaml", strings.Replace(loom, "linen", "wool", 1)))
	w.run(t, "serverside-applied", "apply --server-side --force-conflicts", file("loom.yaml", loom))
	if table := w.run(t, "WEFT", "get weaving -o wide"); !strings.Contains(table, "linen") || !strings.Contains(table, "plain") {
		t.Errorf("get says %s", table)
	}
	w.run(t, "Cloth is what it makes.", "explain looms.spec.cloth")
	w.run(t, "scaled", "scale lm one --replicas=5")
	w.run(t, "5", "get lm one -o jsonpath={.spec.shuttles}")
	w.run(t, "patched", "patch looms one --type=merge", `-p={"spec":{"weft":"twill"}}`)
	w.run(t, "twill", "get looms.weaving.example.com one -o yaml")
	output, code := harness.Run(t, "kubectl", "--data-dir="+w.DataDir, "patch", "looms", "one", "--type=merge", `-p={"spec":{"cloth":"lead"}}`)
	if code == 0 || !strings.Contains(output, `spec.cloth: Unsupported value: "lead": supported values: "linen", "wool"`) {
		t.Errorf("a wrong patch ended with code %d: %s", code, output)
	}

	last := w.made.Definition(w.definitions - 1)
	w.run(t, last.Plural, "api-resources --api-group="+last.Group)
	w.run(t, "No resources found", "get "+last.ShortName+" -A")
	w.run(t, last.Kind, "explain "+last.Plural+"."+last.Group+".spec")
	// Sorted, other groups than fill's come last in the output, of which the end is kept.
	w.run(t, "looms", "api-resources --sort-by=name --no-headers --namespaced")
	w.run(t, "deleted", "delete crd looms.weaving.example.com")
	output, code = harness.Run(t, "kubectl", "--data-dir="+w.DataDir, "get", "looms")
	if code == 0 || !strings.Contains(output, `the server doesn't have a resource type "looms"`) {
		t.Errorf("get of what is gone ended with code %d: %s", code, output)
	}
}
