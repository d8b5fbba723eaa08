package replica

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/test/support/harness"
)

// readRules are the rights of a replica that follows some resources by the API, besides
// those of the role system:auth-delegator. docs/guides/replica-reference.md has the same.
func readRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}, Verbs: []string{"get", "list", "watch"}},
	}
}

// TestRightsAreTheUpstreams sends reads and writes of users with different rights to a
// replica with the least rights of its own, and to its upstream: statuses and bodies of
// denials are equal.
func TestRightsAreTheUpstreams(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	own := account(t, admin, "replica", []string{"system:auth-delegator"}, readRules()...)
	reader := account(t, admin, "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})
	must(admin.CoreV1().ConfigMaps("default").Create(ctx, configMap("one"), metav1.CreateOptions{}))(t)
	kubeconfig := kubeconfigFor(t, upstream, own)
	leadElsewhere(t, kubeconfig)
	replica := harness.StartReplica(t, upstream, "--kubeconfig="+kubeconfig, "--context=x", "--follow=configmaps")
	if output := replica.Output(); strings.Contains(output, "clusterrolebinding") {
		t.Errorf("a replica with all rights asks for some:\n%s", output)
	}

	for name, token := range map[string]string{"reader": reader, "unknown token": "nonsense", "nobody": ""} {
		for _, path := range []string{"/api/v1/namespaces/default/configmaps/one", "/api/v1/configmaps?resourceVersion=0", "/api/v1/pods", "/api/v1/namespaces/default/secrets", "/version", "/apis", "/nothing"} {
			var theirs, ours answer
			eventually(t, "equal answers to "+name+" for "+path, func() (err error) {
				if theirs, err = fetch(ctx, withToken(upstream, t, token), path); err != nil {
					return err
				}
				if ours, err = fetch(ctx, withToken(replica, t, token), path); err != nil {
					return err
				}
				if ours != theirs {
					return notYet("replica %d %.300s\nupstream %d %.300s", ours.status, ours.body, theirs.status, theirs.body)
				}
				return nil
			})
		}
	}
	t.Run("the right to ask", func(t *testing.T) { asksForTheRightToAsk(t, upstream, reader) })
	t.Run("certificates need a way", func(t *testing.T) {
		// The kubeconfig that the replica wrote has its own token, so the administrator's
		// certificate comes from the upstream's.
		config := replica.Config()
		config.BearerToken = ""
		config.CertData, config.KeyData = upstream.Config().CertData, upstream.Config().KeyData
		client := clientset(t, config)
		must(client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: "0"}))(t)
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("two"), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "--proxy-client-cert-file") {
			t.Errorf("write with a certificate: %v, want 403 with advice", err)
		}
	})
}

// asksForTheRightToAsk starts a replica that may not ask the upstream about users. It says once
// what to apply, and passes the requests of a user on.
func asksForTheRightToAsk(t *testing.T, upstream *harness.Server, reader string) {
	weak := account(t, clientset(t, upstream.Config()), "weak", nil, readRules()...)
	port := fmt.Sprint(harness.FreePort(t))
	replica := harness.Command(t, "replica", "--secure-port="+port, "--kubeconfig="+kubeconfigFor(t, upstream, weak), "--cert-dir="+t.TempDir())
	config := withToken(upstream, t, reader)
	config.Host, config.TLSClientConfig = "https://127.0.0.1:"+port, rest.TLSClientConfig{Insecure: true}
	eventually(t, "an answer of the upstream", func() error {
		got, err := fetch(t.Context(), config, "/api/v1/configmaps")
		if err == nil && got.status != http.StatusOK {
			return notYet("status %d", got.status)
		}
		return err
	})
	const command = "kubectl create clusterrolebinding millrace-replica-delegator --clusterrole=system:auth-delegator --serviceaccount=default:weak"
	if output := replica.Output(); strings.Count(output, command) != 1 {
		t.Errorf("the log does not say once what to apply:\n%s", output)
	}
}

// leadElsewhere gives a kubeconfig a current context that leads to no server. The context x
// stays.
func leadElsewhere(t *testing.T, file string) {
	t.Helper()
	config := must(clientcmd.LoadFromFile(file))(t)
	config.Clusters["elsewhere"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["elsewhere"] = &clientcmdapi.Context{Cluster: "elsewhere", AuthInfo: "u"}
	config.CurrentContext = "elsewhere"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
}

// TestUsersArePassedOn writes as the administrator, who has a certificate, through replicas
// that name the user in each of the two ways. The upstream records the user.
func TestUsersArePassedOn(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	pki := filepath.Join(upstream.DataDir, "pki")
	for name, flags := range map[string][]string{
		"impersonation": nil,
		"front proxy": {
			"--proxy-client-cert-file=" + filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file=" + filepath.Join(pki, "front-proxy-client.key"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			replica := harness.StartReplica(t, upstream, flags...)
			theirs := must(clientset(t, upstream.Config()).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), review(), metav1.CreateOptions{}))(t)
			ours := must(clientset(t, replica.Config()).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), review(), metav1.CreateOptions{}))(t)
			if ours.Status.String() != theirs.Status.String() {
				t.Errorf("the upstream takes the user for %v, want %v", ours.Status, theirs.Status)
			}
			// Headers that name another user are not believed.
			client := must(http.NewRequestWithContext(t.Context(), http.MethodGet, replica.URL+"/api/v1/namespaces/default/secrets", nil))(t)
			client.Header.Set("X-Remote-User", "admin")
			client.Header.Set("X-Remote-Group", "system:masters")
			nobody := replica.HTTPClient()
			nobody.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
			resp := must(nobody.Do(client))(t)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("a stranger who claims to be an administrator gets %d", resp.StatusCode)
			}
		})
	}
}
