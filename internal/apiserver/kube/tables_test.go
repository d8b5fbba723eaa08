package kube_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestTableColumnsEqualKubernetes compares the columns of each resource with those of a
// stock server.
func TestTableColumnsEqualKubernetes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes", "--runtime-config=api/all=true",
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,EvictionRequestAPI=true")
	config := server.Config()
	config.WarningHandler = rest.NoWarnings{}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, groups, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	tables := kube.NewTables()
	compared := 0
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if strings.Contains(r.Name, "/") || !strings.Contains(strings.Join(r.Verbs, " "), "list") {
				continue
			}
			root := "/apis/"
			if gv.Group == "" {
				root = "/api/"
			}
			var theirs metav1.Table
			raw := client.RESTClient().Get().AbsPath(root+gv.String(), r.Name).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("limit", "1")
			if err := raw.Do(context.Background()).Into(&theirs); err != nil {
				t.Errorf("%s in %s: %v", r.Name, gv, err)
				continue
			}
			stored := gv.WithResource(r.Name).GroupResource()
			if r.Name == "events" {
				stored.Group = ""
			}
			if tables.Of(stored) == nil {
				continue // Kubernetes prints this resource itself
			}
			ours, err := tables.Of(stored).ConvertToTable(context.Background(), internalList(t, stored.Group, r.Kind), &metav1.TableOptions{})
			if err != nil {
				t.Errorf("%s in %s: %v", r.Name, gv, err)
				continue
			}
			if !reflect.DeepEqual(ours.ColumnDefinitions, theirs.ColumnDefinitions) {
				t.Errorf("%s in %s: columns\n%v\nwant\n%v", r.Name, gv, ours.ColumnDefinitions, theirs.ColumnDefinitions)
			}
			compared++
		}
	}
	t.Logf("compared %d resources", compared)
	if compared < 60 {
		t.Errorf("only %d resources are installed", compared)
	}
}

func internalList(t *testing.T, group, kind string) runtime.Object {
	t.Helper()
	gvk := schema.GroupVersionKind{Group: group, Version: runtime.APIVersionInternal, Kind: kind + "List"}
	for _, scheme := range []*runtime.Scheme{legacyscheme.Scheme, aggregatorscheme.Scheme, apiextensionsapiserver.Scheme} {
		if list, err := scheme.New(gvk); err == nil {
			return list
		}
	}
	t.Fatalf("no scheme knows %s", gvk)
	return nil
}
