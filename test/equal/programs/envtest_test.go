package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/millrace/millrace/test/support/harness"
)

// etcdScript is an etcd that takes the two flags of envtest's that matter.
const etcdScript = `#!/bin/sh
for arg in "$@"; do
	case "$arg" in
	--listen-client-urls=*) port="${arg##*:}" ;;
	--data-dir=*) dir="${arg#*=}" ;;
	esac
done
exec env %s="$port,$dir" %s
`

// TestEnvtest has envtest start the program by a link with the name kube-apiserver, as suites of
// operators do, and lists a custom resource as soon as its definition is installed.
func TestEnvtest(t *testing.T) {
	t.Parallel()
	assets, links := t.TempDir(), t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(links, "kube-apiserver")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"kube-apiserver": "#!/bin/sh\nexec env " + harness.AsProgram + " " + link + " \"$@\"\n",
		"etcd":           fmt.Sprintf(etcdScript, harness.EtcdVariable, program),
	} {
		if err := os.WriteFile(filepath.Join(assets, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	harness.InstallKubectl(t, assets, "")
	env := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: []*apiextensionsv1.CustomResourceDefinition{gauges()}}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gauge"}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind)
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatalf("the first LIST: %v", err)
	}
	var gauge unstructured.Unstructured
	gauge.SetGroupVersionKind(kind)
	gauge.SetNamespace("default")
	gauge.SetName("g")
	if err := c.Create(t.Context(), &gauge); err != nil {
		t.Fatalf("create: %v", err)
	}
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d objects: %v", len(list.Items), err)
	}
}

// gauges is a definition without rules.
func gauges() *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gauges.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gauges", Singular: "gauge", Kind: "Gauge", ListKind: "GaugeList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}
}
