package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/harness"
)

// kustomized returns what kustomize makes of a directory of deploy, as text.
func kustomized(t *testing.T, dir string) string {
	t.Helper()
	output, code := harness.Run(t, "kubectl", "kustomize", filepath.Join(deploy, dir))
	if code != 0 {
		t.Fatalf("kustomize %s: %s", dir, output)
	}
	return output
}

// compared returns objects as text by KIND/NAME, without what both ways have by themselves:
// labels, and the namespace. Flags and rules are in order.
func compared(t *testing.T, objects []runtime.Object) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, object := range objects {
		content := must(runtime.DefaultUnstructuredConverter.ToUnstructured(object))(t)
		o := unstructured.Unstructured{Object: content}
		o.SetNamespace("")
		ordered(content)
		texts[o.GetKind()+"/"+o.GetName()] = string(must(yaml.Marshal(content))(t))
	}
	return texts
}

// ownKeys are labels and annotations of one of both ways.
var ownKeys = regexp.MustCompile(`^(app|app\.kubernetes\.io/.*|helm\.sh/chart|checksum/.*)$`)

// ordered changes a value to a form that is the same for both ways, and reports whether
// anything is left of it.
func ordered(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		for key, child := range v {
			if args, ok := child.([]any); ok && (key == "args" || key == "command") {
				child = flags(args)
				v[key] = child
			}
			// A Service is of this type by default.
			if !ordered(child) || ownKeys.MatchString(key) || child == "ClusterIP" {
				delete(v, key)
			}
		}
		return len(v) > 0
	case []any:
		for _, child := range v {
			ordered(child)
		}
		if len(v) > 0 && isRule(v[0]) {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(jsonOf(a), jsonOf(b)) })
		}
	}
	return true
}

// isRule reports whether a value is a rule of a role.
func isRule(value any) bool {
	rule, _ := value.(map[string]any)
	return rule["verbs"] != nil
}

func jsonOf(value any) string {
	text, _ := json.Marshal(value) // it was JSON
	return string(text)
}

// flags returns arguments in order, one for each value of a list. A flag without a value is
// true.
func flags(args []any) (all []any) {
	var texts []string
	for _, arg := range args {
		name, values, found := strings.Cut(arg.(string), "=")
		if !found && strings.HasPrefix(name, "--") {
			values = "true"
		}
		for value := range strings.SplitSeq(values, ",") {
			texts = append(texts, name+"="+value)
		}
	}
	slices.Sort(texts)
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// compare compares an object of a chart with that of the manifests.
func compare(t *testing.T, name, chart, manifest string) {
	t.Helper()
	if chart != manifest {
		t.Errorf("%s of the chart is\n%sand that of the manifests is\n%s", name, chart, manifest)
	}
}

// TestReplicaIsThatOfKustomize compares the chart of replicas with deploy/replica, in its
// three variants. All objects are the same, but for the names of those that are in no
// namespace.
func TestReplicaIsThatOfKustomize(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ variant, dir, component string }{
		{variant: "default", dir: "api"},
		{variant: "etcd", dir: "etcd"},
		{variant: "impersonation", dir: "api", component: "impersonation/rbac.yaml"},
	} {
		t.Run(one.variant, func(t *testing.T) {
			text := kustomized(t, "replica/"+one.dir)
			if one.component != "" {
				text += "---\n" + string(must(os.ReadFile(filepath.Join(deploy, "replica", one.component)))(t))
			}
			text = regexp.MustCompile(`(replica-kubeconfig)-\w+`).ReplaceAllString(text, "$1")
			text = strings.ReplaceAll(text, "name: millrace-replica-", "name: millrace-replica-replica-")
			want := compared(t, decoded(t, text))
			delete(want, "Namespace/millrace-replica") // helm makes it
			got := compared(t, chartCase("millrace-replica/"+one.variant).objects(t))
			for name := range got {
				compare(t, name, got[name], want[name])
				delete(want, name)
			}
			for name := range want {
				t.Errorf("the chart has no %s", name)
			}
		})
	}
}

// TestServersAreThoseOfKustomize compares the chart of servers with deploy/ha. Clients reach
// them by a Service as they reach HAProxy there.
func TestServersAreThoseOfKustomize(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(kustomized(t, "ha"), "image: millrace:latest", "image: millrace") // the same one
	want := compared(t, decoded(t, text))
	want["Service/server"] = strings.Replace(want["Service/api"], "name: api", "name: server", 1)
	got := compared(t, chartCase("millrace/default").objects(t))
	if len(got) != 3 {
		t.Errorf("the chart has %d objects", len(got))
	}
	for name := range got {
		compare(t, name, got[name], want[name])
	}
}
