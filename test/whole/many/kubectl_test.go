package many

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
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

// kubectl is the program and its discovery cache.
type kubectl struct {
	*cluster
	cache string
}

func (k kubectl) try(t *testing.T, command string, args ...string) (output string, code int) {
	t.Helper()
	return harness.Run(t, append([]string{"kubectl", "--data-dir=" + k.DataDir, "--cache-dir=" + k.cache}, append(strings.Fields(command), args...)...)...)
}

// run fails the test unless the output contains wanted.
func (k kubectl) run(t *testing.T, wanted, command string, args ...string) string {
	t.Helper()
	output, code := k.try(t, command, args...)
	if code != 0 || !strings.Contains(output, wanted) {
		t.Fatalf("kubectl %s ended with code %d, want 0 and %q:\n%s", command, code, wanted, output)
	}
	return output
}

// throughKubectl does the things with a definition that people do, while all
// other definitions exist.
func (cl *cluster) throughKubectl(t *testing.T) {
	dir := t.TempDir()
	k := kubectl{cl, filepath.Join(dir, "cache")}
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(content), 0o600))
		return "-f=" + path
	}
	k.run(t, "looms.weaving.example.com created", "apply", file("crd.yaml", looms))
	// kubectl fails on a definition that has no conditions yet.
	eventually(t, "conditions", func(context.Context) error {
		output, _ := k.try(t, "get crd looms.weaving.example.com -o=jsonpath={.status.conditions[0].type}")
		return differ("condition", output, "NamesAccepted")
	})
	k.run(t, "condition met", "wait --for=condition=Established crd/looms.weaving.example.com --timeout=60s")
	k.run(t, "looms ", "api-resources --api-group=weaving.example.com")
	k.run(t, "loom.weaving.example.com/one created", "apply", file("loom.yaml", loom))
	k.run(t, "unchanged", "apply", file("loom.yaml", loom))
	k.run(t, "configured", "apply", file("loom.yaml", strings.Replace(loom, "linen", "wool", 1)))
	k.run(t, "serverside-applied", "apply --server-side --force-conflicts", file("loom.yaml", loom))
	if table := k.run(t, "WEFT", "get weaving -o wide"); !strings.Contains(table, "linen") || !strings.Contains(table, "plain") {
		t.Errorf("get says %s", table)
	}
	k.run(t, "Cloth is what it makes.", "explain looms.spec.cloth")
	k.run(t, "scaled", "scale lm one --replicas=5")
	k.run(t, "5", "get lm one -o jsonpath={.spec.shuttles}")
	k.run(t, "patched", "patch looms one --type=merge", `-p={"spec":{"weft":"twill"}}`)
	k.run(t, "twill", "get looms.weaving.example.com one -o yaml")
	output, code := k.try(t, `patch looms one --type=merge -p={"spec":{"cloth":"lead"}}`)
	if code == 0 || !strings.Contains(output, `spec.cloth: Unsupported value: "lead": supported values: "linen", "wool"`) {
		t.Errorf("a wrong patch ended with code %d: %s", code, output)
	}

	last := cl.made.Definition(cl.definitions - 1)
	k.run(t, last.Plural, "api-resources --api-group="+last.Group)
	k.run(t, "No resources found", "get "+last.ShortName+" -A")
	k.run(t, last.Kind, "explain "+last.Plural+"."+last.Group+".spec")
	// A table of all definitions would exceed the kept length of an output.
	k.run(t, "looms.weaving.example.com", "api-resources --output=name --namespaced")
	k.run(t, "deleted", "delete crd looms.weaving.example.com")
	k.cache = filepath.Join(dir, "other cache")
	output, code = k.try(t, "get looms")
	if code == 0 || !strings.Contains(output, `the server doesn't have a resource type "looms"`) {
		t.Errorf("get of a deleted resource ended with code %d: %s", code, output)
	}
}
