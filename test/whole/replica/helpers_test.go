package replica

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// waitTimeout bounds every wait. It is generous, since machines are shared.
	waitTimeout = time.Minute
	// delay is how late a busy machine may notice what has a time of its own. It is shorter
	// than the default of the times that tests shorten.
	delay = 5 * time.Second
)

// startUpstream starts a stock server that writes nothing by itself once it is quiet.
func startUpstream(t *testing.T) *harness.Server {
	t.Helper()
	return harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes",
		"--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false")
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	return client
}

// must fails the test for an error.
func must[T any](made T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return made
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}
}

// withToken returns a client configuration of a server for a bearer token.
func withToken(s *harness.Server, t *testing.T, token string) *rest.Config {
	config := rest.AnonymousClientConfig(s.Config())
	config.BearerToken, config.QPS = token, -1
	return config
}

// account creates a service account with some rights in all namespaces, and returns a
// token for it. A test waits until the upstream knows the rights.
func account(t *testing.T, admin kubernetes.Interface, name string, roles []string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	ctx := t.Context()
	must(admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	if len(rules) > 0 {
		must(admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}))(t)
		roles = append(roles, name)
	}
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: "default"}
	for _, role := range roles {
		must(admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{}))(t)
	}
	made := must(admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	return made.Status.Token
}

// kubeconfigFor writes a kubeconfig for a token, and returns its name.
func kubeconfigFor(t *testing.T, s *harness.Server, token string) string {
	t.Helper()
	config, file := s.Config(), filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.URL, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// answer is a response as a test compares it.
type answer struct {
	status int
	body   string
}

// fetch sends a GET.
func fetch(ctx context.Context, config *rest.Config, path string) (answer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	if err != nil {
		return answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(body)}, err
}

// eventually waits until the condition returns nil.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := harness.Until(waitTimeout, condition); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// sources are the ways to follow an upstream, as flags.
func sources(upstream *harness.Server) map[string][]string {
	return map[string][]string{"etcd": {upstream.EtcdServers()}, "api": {"--follow=configmaps,pods"}}
}

func notYet(format string, args ...any) error {
	return fmt.Errorf("%w: %s", harness.ErrNotYet, fmt.Sprintf(format, args...))
}
