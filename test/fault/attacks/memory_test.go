package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// followBytes is what a replica may hold of resources that nobody has named. Each of the
	// resources that are read has more.
	followBytes = 4 << 20
	// followSlack is what a load may add between two looks at the sum.
	followSlack = 2 << 20
	// largeObjects is the number of objects of each resource, of largeSize bytes each.
	largeObjects, largeSize = 40, 200 << 10
	viewerRounds            = 40
)

// TestViewerCannotFillMemory has a user who may read one namespace, with nothing in it, read
// resources of which other namespaces have more than a replica may hold. The replica gives them
// up, and the upstream answers.
func TestViewerCannotFillMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	upstream := startStock(t)
	fillLarge(t, upstream)
	replica := &server{harness.StartReplica(t, upstream.Server, fmt.Sprintf("--follow-bytes=%d", followBytes)), "replica", ""}
	ctx, cancel := context.WithCancel(t.Context())
	var reading, sampling sync.WaitGroup
	var most float64
	sampling.Go(func() {
		for more := true; more; more = sleep(ctx, 20*time.Millisecond) {
			all, err := replica.metrics(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			most = max(most, sumOfLines(all, "millrace_cache_stored_bytes{"))
		}
	})
	client := newClient(t)
	for _, path := range []string{"/api/v1/namespaces/tenant/configmaps", "/api/v1/namespaces/tenant/podtemplates", "/apis/coordination.k8s.io/v1/namespaces/tenant/leases"} {
		reading.Go(func() {
			for range viewerRounds {
				if err := replica.list(ctx, client, path+"?resourceVersion=0"); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				<-time.After(getPeriod)
			}
		})
	}
	reading.Wait()
	cancel()
	sampling.Wait()
	all, err := replica.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := sumOfLines(all, "millrace_replica_passed_on_total{", `reason="memory"`)
	t.Logf("the replica held %.1f MB at most, and passed %.0f reads on for want of memory", most/(1<<20), refused)
	if most > followBytes+followSlack || refused == 0 {
		t.Errorf("the replica held %.0f bytes, and may hold %d; it passed %.0f reads on for want of memory", most, followBytes, refused)
	}
}

// fillLarge creates the objects, and gives the viewer the rights of its namespace.
func fillLarge(t *testing.T, s *server) {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, namespaceErr := client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "tenant"}}, meta.CreateOptions{})
	_, roleErr := client.RbacV1().Roles("tenant").Create(ctx, &rbac.Role{
		ObjectMeta: meta.ObjectMeta{Name: "view"},
		Rules:      []rbac.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}},
	}, meta.CreateOptions{})
	_, bindingErr := client.RbacV1().RoleBindings("tenant").Create(ctx, &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "view"}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "view"},
		Subjects: []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: "curious"}},
	}, meta.CreateOptions{})
	if err := errors.Join(namespaceErr, roleErr, bindingErr); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range largeObjects {
		all.Go(func() {
			large := meta.ObjectMeta{Name: fmt.Sprintf("large-%d", i), Annotations: map[string]string{"text": strings.Repeat("x", largeSize)}}
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &core.ConfigMap{ObjectMeta: large}, meta.CreateOptions{})
			_, templateErr := client.CoreV1().PodTemplates(namespace).Create(ctx, &core.PodTemplate{ObjectMeta: large, Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}},
			}}, meta.CreateOptions{})
			_, leaseErr := client.CoordinationV1().Leases(namespace).Create(ctx, &coordination.Lease{ObjectMeta: large}, meta.CreateOptions{})
			if err := errors.Join(err, templateErr, leaseErr); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// list sends a GET of the user without rights elsewhere.
func (s *server) list(ctx context.Context, client *http.Client, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+curiousToken)
	return readAll(client, req)
}
