package accounts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// apiServerManager is the field manager of the objects that a fresh server writes.
const apiServerManager = "kube-apiserver"

// managersByObject returns the field managers of all objects of a fresh server.
func managersByObject(t *testing.T, s *server) map[string][]string {
	t.Helper()
	config := s.Config()
	config.WarningHandler = rest.NoWarnings{}
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "componentstatuses" {
				continue
			}
			objects, err := client.Resource(gv.WithResource(r.Name)).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for _, o := range objects.Items {
				if name := o.GetName(); !transientResources[r.Name] {
					found[fmt.Sprintf("%s %s/%s", r.Name, o.GetNamespace(), name)] = managersOf(o.GetManagedFields())
				}
			}
		}
	}
	return found
}

// ownManagers are field managers that components choose themselves.
var ownManagers = map[string]bool{
	"kubernetes-service-cidr-controller": true, "api-priority-and-fairness-config-consumer-v1": true,
	"api-priority-and-fairness-config-producer-v1": true,
}

// transientResources have objects whose names differ between servers, or which come
// later.
var transientResources = map[string]bool{"leases": true, "events": true, "ipaddresses": true}

func managersOf(fields []metav1.ManagedFieldsEntry) []string {
	seen := map[string]bool{}
	for _, f := range fields {
		seen[strings.Join([]string{f.Manager, string(f.Operation), f.Subresource}, " ")] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// compareManagers compares field managers once both servers have the same objects. Each
// manager must be the one that a separate kube-apiserver would have written.
func (p *pair) compareManagers(t *testing.T) {
	t.Helper()
	var ours, theirs map[string][]string
	err := harness.Until(time.Minute, func() error {
		ours, theirs = managersByObject(t, p.ours), managersByObject(t, p.theirs)
		if _, ok := ours["services default/kubernetes"]; !ok || !slices.Equal(sortedKeys(ours, nil), sortedKeys(theirs, nil)) {
			return harness.ErrNotYet
		}
		return nil
	})
	if err != nil {
		t.Errorf("a fresh start writes %q, not %q", sortedKeys(ours, nil), sortedKeys(theirs, nil))
	}
	if len(theirs) < 100 {
		t.Errorf("a fresh start writes %d objects", len(theirs))
	}
	for _, name := range sortedKeys(ours, theirs) {
		a, b := ours[name], theirs[name]
		if !slices.Equal(a, b) {
			t.Errorf("%s: field managers %q, not %q", name, a, b)
		}
		for _, m := range a {
			if manager, _, _ := strings.Cut(m, " "); manager != apiServerManager && !ownManagers[manager] {
				t.Errorf("%s: field manager %q", name, m)
			}
		}
	}
}
