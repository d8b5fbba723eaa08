package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

// TestDashboard requests the reports and their page as an administrator, without
// credentials, and as accounts with and without the permission.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	client := clientset(t, s)
	create(t, client, configMap("listed"))
	clients := map[string]*http.Client{
		"admin": s.HTTPClient(), "anonymous": bearer(t, s, ""), "a wrong token": bearer(t, s, "wrong"),
		"weak": bearer(t, s, account(t, client, "weak")), "viewer": bearer(t, s, account(t, client, "viewer")),
	}
	grant(t, client, "viewer")
	eventually(t, func(ctx context.Context) error { // until the authorizer knows the grant
		_, err := expect(ctx, s, clients["viewer"], "/debug/millrace/memory", http.StatusOK)
		return err
	})
	for _, path := range []string{"/debug/millrace", "/debug/millrace/", "/debug/millrace/slo", "/debug/millrace/watchers", "/debug/millrace/lists", "/debug/millrace/memory", "/debug/millrace/crds", "/debug/millrace/crds?pretty", "/debug/millrace/feed"} {
		for name, code := range map[string]int{"admin": 200, "viewer": 200, "weak": 403, "anonymous": 403, "a wrong token": 401} {
			if path == "/debug/millrace" && name == "viewer" {
				continue // the rule covers only the paths below
			}
			if _, err := expect(t.Context(), s, clients[name], path, code); err != nil {
				t.Errorf("%s as %s: %v", path, name, err)
			}
		}
	}
	if _, err := expect(t.Context(), s, clients["admin"], "/debug/millrace/nothing", 404); err != nil {
		t.Error(err)
	}
	for name, client := range clients {
		page, err := expect(t.Context(), s, client, "/millrace/", 200)
		if err != nil || !strings.Contains(page, "<title>Millrace</title>") {
			t.Errorf("the page as %s: %v", name, err)
		}
	}
	for path, code := range map[string]int{"/millrace/index.html": 403, "/millrace/other": 403, "/millrace/../api/v1/secrets": 403} {
		if _, err := expect(t.Context(), s, clients["anonymous"], path, code); err != nil {
			t.Error(err)
		}
	}
	if root, err := expect(t.Context(), s, clients["admin"], "/", 200); err != nil || strings.Contains(root, `/debug/millrace`) || strings.Contains(root, `"/millrace`) {
		t.Errorf("the list of paths differs from Kubernetes': %v %s", err, root)
	}
	wantMemoryReport(t, s, clients["admin"])
}

// wantMemoryReport waits until the report of memory has the config maps that the test
// has written and listed.
func wantMemoryReport(t *testing.T, s *harness.Server, admin *http.Client) {
	t.Helper()
	if _, err := expect(t.Context(), s, admin, "/api/v1/namespaces/default/configmaps", 200); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		body, err := expect(ctx, s, admin, "/debug/millrace/memory", 200)
		if err != nil {
			return err
		}
		var result serverreport.MemoryReport
		if err := json.Unmarshal([]byte(body), &result); err != nil {
			return err
		}
		for _, r := range result.Resources {
			if r.Resource == "configmaps" && r.Objects > 1 && r.Values > 0 && r.Log > 0 && r.Forms["v1 json"] > 0 && result.Resident > result.Heap/2 {
				return nil
			}
		}
		return fmt.Errorf("no config maps in %s", body)
	})
}

// TestDefinitionCosts checks the report of a definition whose objects are in use, and
// after a restart, before the first request for them.
func TestDefinitionCosts(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	c := newCustomClients(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"text": stringSchema})
	for i := range 3 {
		c.create(t, fmt.Sprint("w", i), map[string]any{"text": "some text"})
	}
	costs := func(ctx context.Context) (serverreport.CRDsReport, error) {
		var result serverreport.CRDsReport
		body, err := expect(ctx, s, s.HTTPClient(), "/debug/millrace/crds", 200)
		if err == nil {
			err = json.Unmarshal([]byte(body), &result)
		}
		return result, err
	}
	wantCosts := func(compiled int) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := costs(ctx)
			if err != nil {
				return err
			}
			if r.Definitions != 1 || r.Served != 1 || r.Compiled != compiled || len(r.Top) != 1 || r.CompiledLimit <= 0 || (r.CompiledBytes > 0) != (compiled > 0) {
				return fmt.Errorf("wrong counts, want %d compiled: %+v", compiled, r)
			}
			top := r.Top[0]
			if top.Name != "widgets.millrace.example" || top.Objects != 3 || top.ObjectBytes <= 0 || top.DefinitionBytes < 500 || top.Webhook || top.CompiledBytes != r.CompiledBytes {
				return fmt.Errorf("wrong costs: %+v", top)
			}
			return nil
		}
	}
	eventually(t, wantCosts(1))
	check(t, s.Terminate())
	s = s.Restart()
	eventually(t, wantCosts(0))
}

// TestNoDashboard checks that the stock read path has no reports, and that top says why.
func TestNoDashboard(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes")
	for _, path := range []string{"/millrace/", "/debug/millrace/memory"} {
		if _, err := expect(t.Context(), s, s.HTTPClient(), path, 404); err != nil {
			t.Error(err)
		}
	}
	output, code := harness.Run(t, "top", "--kubeconfig="+s.Kubeconfig())
	if code != 1 || !strings.Contains(output, "--read-path=kubernetes") {
		t.Errorf("top ends with %d and says %s", code, output)
	}
}

// expect returns the body of an answer, and an error if the answer has another code.
func expect(ctx context.Context, s *harness.Server, client *http.Client, path string, code int) (string, error) {
	got, body, err := fetch(ctx, s, client, path, "")
	if err == nil && got != code {
		err = fmt.Errorf("%s: %d, want %d: %.200s", path, got, code, body)
	}
	return body, err
}

// bearer returns a client with a token and no other credentials. The token "" is none.
func bearer(t *testing.T, s *harness.Server, token string) *http.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(s.Config())
	config.WrapTransport = transport.Wrappers(func(rt http.RoundTripper) http.RoundTripper {
		if token == "" {
			return rt
		}
		return transport.NewBearerAuthRoundTripper(token, rt)
	})
	client, err := rest.HTTPClientFor(config)
	check(t, err)
	return client
}

// account creates a service account and returns a token for it.
func account(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	check(t, err)
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	return request.Status.Token
}

// grant gives an account the permissions of deploy/monitoring/viewer.yaml.
func grant(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "millrace-viewer"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/millrace/*"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "millrace-viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "millrace-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	check(t, err)
}
