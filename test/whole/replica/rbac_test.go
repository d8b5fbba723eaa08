package replica

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// byRBAC has a replica decide by RBAC objects.
const byRBAC = "--authorization-mode=RBAC,SubjectAccessReview"

// certify returns a client configuration of a server for a user with groups, who has a
// certificate of the upstream's authority.
func certify(t *testing.T, upstream, s *harness.Server, name string, groups ...string) *rest.Config {
	t.Helper()
	pki := filepath.Join(upstream.DataDir, "pki")
	authority := must(tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key")))(t)
	parent := must(x509.ParseCertificate(authority.Certificate[0]))(t)
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	made := must(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, parent, &key.PublicKey, authority.PrivateKey))(t)
	config := rest.AnonymousClientConfig(s.Config())
	config.QPS = -1
	config.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return config
}

// counter reads a counter of a server.
func counter(t *testing.T, s *harness.Server, series string) int {
	t.Helper()
	client := must(rest.HTTPClientFor(s.Config()))(t)
	defer client.CloseIdleConnections()
	resp := must(client.Get(s.URL + "/metrics"))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("read metrics: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return must(strconv.Atoi(value))(t)
		}
	}
	return 0
}

const (
	decidedByRBAC   = `millrace_replica_authorizations_total{by="rbac"}`
	decidedByReview = `millrace_replica_authorizations_total{by="review"}`
)

// randomRBAC makes random RBAC objects at an upstream.
type randomRBAC struct {
	*mathrand.Rand
	client kubernetes.Interface
}

var (
	rbacNamespaces = []string{"default", "kube-system", "one", "two"}
	rbacGroups     = []string{"blue", "green", "red"}
	rbacResources  = []string{"configmaps", "pods", "services"}
)

func (r *randomRBAC) pick(from ...string) string { return from[r.IntN(len(from))] }

func (r *randomRBAC) rules() []rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{r.pick(append(rbacResources, "*")...)}, Verbs: []string{r.pick("get", "list", "watch", "*")}}
	if r.IntN(3) == 0 {
		rule.ResourceNames = []string{r.pick("x", "y")}
	}
	return []rbacv1.PolicyRule{rule}
}

func (r *randomRBAC) subjects() []rbacv1.Subject {
	switch r.IntN(3) {
	case 0:
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprint("user-", r.IntN(8))}}
	case 1:
		return []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: r.pick(rbacGroups...)}}
	}
	return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: r.pick("robot", "other")}}
}

// make creates the objects. The last ones let "last" read all config maps.
func (r *randomRBAC) make(t *testing.T) {
	t.Helper()
	ctx, rights := t.Context(), r.client.RbacV1()
	for _, namespace := range rbacNamespaces[2:] {
		must(r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	}
	for i := range 12 {
		m := metav1.ObjectMeta{Name: fmt.Sprint("random-", i)}
		must(rights.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: m, Rules: r.rules()}, metav1.CreateOptions{}))(t)
		namespace := rbacNamespaces[i%len(rbacNamespaces)]
		must(rights.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: m, Rules: r.rules()}, metav1.CreateOptions{}))(t)
		must(rights.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: m, Subjects: r.subjects(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: r.pick("Role", "ClusterRole"), Name: fmt.Sprint("random-", r.IntN(14))}}, metav1.CreateOptions{}))(t)
		if i%3 == 0 {
			must(rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: m, Subjects: r.subjects(),
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: fmt.Sprint("random-", r.IntN(14))}}, metav1.CreateOptions{}))(t)
		}
	}
	last := metav1.ObjectMeta{Name: "last"}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "last"}}
	all := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}
	must(rights.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: last, Rules: all}, metav1.CreateOptions{}))(t)
	must(rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: last, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "last"}}, metav1.CreateOptions{}))(t)
	all[0].Resources = []string{"pods"}
	must(rights.Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: last, Rules: all}, metav1.CreateOptions{}))(t)
	must(rights.RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: last, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "last"}}, metav1.CreateOptions{}))(t)
}

// readAttempt is a read of a user, as a path and as a question about the user's right.
type readAttempt struct {
	user   string
	groups []string
	ask    authorizationv1.ResourceAttributes
}

func (r *randomRBAC) attempt(user string, groups []string) readAttempt {
	a := authorizationv1.ResourceAttributes{Verb: r.pick("get", "list", "watch"), Version: "v1", Resource: r.pick(rbacResources...), Namespace: r.pick(append(rbacNamespaces, "")...)}
	if a.Verb == "get" {
		a.Name, a.Namespace = r.pick("x", "y", "z"), r.pick(rbacNamespaces...)
	}
	return readAttempt{user, groups, a}
}

func (a *readAttempt) path(selector string) string {
	path := "/api/v1/"
	if a.ask.Namespace != "" {
		path += "namespaces/" + a.ask.Namespace + "/"
	}
	path += a.ask.Resource
	switch a.ask.Verb {
	case "get":
		return path + "/" + a.ask.Name + "?resourceVersion=0"
	case "watch":
		return path + "?watch=1&resourceVersion=0" + selector
	}
	return path + "?resourceVersion=0" + selector
}

// status sends a GET and returns the answer's status, without waiting for its body.
func status(ctx context.Context, client *http.Client, url string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// allowedBy asks a server about a user's right.
func (a *readAttempt) allowedBy(ctx context.Context, client kubernetes.Interface) (bool, error) {
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: a.user, Groups: append(a.groups, "system:authenticated"), ResourceAttributes: &a.ask},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// TestRBACIsTheUpstreams sends random reads of random users to replicas that decide by
// RBAC objects. They answer exactly those that the upstream allows by its own word, and
// ask it only about the others.
func TestRBACIsTheUpstreams(t *testing.T) {
	t.Parallel()
	const attempts = 1_000
	seed := harness.Seed(t)
	t.Logf("%s=%d", harness.SeedVariable, seed)
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	r := &randomRBAC{mathrand.New(mathrand.NewPCG(seed, 1)), admin}
	r.make(t)
	for name, flags := range map[string][]string{"etcd": {upstream.EtcdServers()}, "api": {"--follow=configmaps,pods,services"}} {
		t.Run(name, func(t *testing.T) {
			replica := harness.StartReplica(t, upstream, append(flags, byRBAC)...)
			last := readAttempt{user: "last", ask: authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "default"}}
			lastClient := must(rest.HTTPClientFor(certify(t, upstream, replica, "last")))(t)
			eventually(t, "the rights of the last binding", func() error {
				before := counter(t, replica, decidedByRBAC)
				code, err := status(t.Context(), lastClient, replica.URL+last.path(""))
				if may, asked := last.allowedBy(t.Context(), admin); err == nil && (asked != nil || !may || code != http.StatusOK || counter(t, replica, decidedByRBAC) != before+1) {
					return notYet("status %d, allowed: %v, %v", code, may, asked)
				}
				return err
			})
			users := make([]*http.Client, 8)
			groups := make([][]string, len(users))
			for i := range users {
				groups[i] = rbacGroups[:i%(len(rbacGroups)+1)]
				users[i] = must(rest.HTTPClientFor(certify(t, upstream, replica, fmt.Sprint("user-", i), groups[i]...)))(t)
			}
			before := [2]int{counter(t, replica, decidedByRBAC), counter(t, replica, decidedByReview)}
			all := make([]readAttempt, attempts)
			allowed := make([]bool, attempts)
			var senders sync.WaitGroup
			for i := range all {
				who := r.IntN(len(users))
				all[i] = r.attempt(fmt.Sprint("user-", who), slices.Clip(groups[who]))
			}
			for sender := range 8 {
				senders.Go(func() {
					for i := sender; i < attempts; i += 8 {
						a := &all[i]
						who := must(strconv.Atoi(strings.TrimPrefix(a.user, "user-")))(t)
						var err error
						if allowed[i], err = a.allowedBy(t.Context(), admin); err != nil {
							t.Error(err)
							return
						}
						code, err := status(t.Context(), users[who], replica.URL+a.path([]string{"", "&labelSelector=a%3Db", "&fieldSelector=metadata.name%3Dx"}[i%3]))
						if err != nil || (code != http.StatusForbidden) != allowed[i] {
							t.Errorf("%+v: status %d, %v; allowed by the upstream: %v", *a, code, err, allowed[i])
						}
					}
				})
			}
			senders.Wait()
			wanted := 0
			for _, is := range allowed {
				if is {
					wanted++
				}
			}
			byRights, byReview := counter(t, replica, decidedByRBAC)-before[0], counter(t, replica, decidedByReview)-before[1]
			t.Logf("%d of %d allowed", wanted, attempts)
			if wanted < attempts/10 || wanted > attempts*9/10 {
				t.Error("the test compares too little")
			}
			if byRights != wanted || byReview != attempts-wanted {
				t.Errorf("%d decided by RBAC and %d by review, want %d and %d", byRights, byReview, wanted, attempts-wanted)
			}
		})
	}
}

// revocation is a way to take a right, and the time in which the right must end.
type revocation struct {
	revoke func(client kubernetes.Interface, name string) error
	within time.Duration
}

// revocations are the ways to take the right of an account. API servers remember the token
// of a service account for 10 s, and a replica remembers what they say for ttl: about rights,
// what they said before the RBAC objects had come.
func revocations(ctx context.Context, ttl time.Duration) map[string]revocation {
	return map[string]revocation{
		"binding": {func(c kubernetes.Interface, name string) error {
			return c.RbacV1().ClusterRoleBindings().Delete(ctx, name+"-"+name, metav1.DeleteOptions{})
		}, ttl + delay},
		"role": {func(c kubernetes.Interface, name string) error {
			return c.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
		}, ttl + delay},
		"token": {func(c kubernetes.Interface, name string) error {
			return c.CoreV1().ServiceAccounts("default").Delete(ctx, name, metav1.DeleteOptions{})
		}, 10*time.Second + ttl + delay},
	}
}

// TestRightsEnd takes the rights of users in three ways, and measures how long replicas
// let them read.
func TestRightsEnd(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	const ttl = 2 * time.Second
	for source, flags := range sources(upstream) {
		replica := harness.StartReplica(t, upstream, append(flags, byRBAC,
			"--authentication-token-webhook-cache-ttl="+ttl.String(), "--authorization-webhook-cache-authorized-ttl="+ttl.String())...)
		for way, revocation := range revocations(t.Context(), ttl) {
			name := source + "-" + way
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				token := account(t, admin, name, nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
				reads := reader(t, withToken(replica, t, token))
				eventually(t, "the right to read", func() error {
					before := counter(t, replica, decidedByReview)
					if code := reads(); code != http.StatusOK || counter(t, replica, decidedByReview) > before {
						return notYet("status %d", code)
					}
					return nil
				})
				endsWithin(t, reads, revocation.within, func() error { return revocation.revoke(admin, name) })
			})
		}
	}
}

// TestRBACFailsClosed kills the upstream: the rights that RBAC objects give end in time,
// and come again with the upstream.
func TestRBACFailsClosed(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	reader := account(t, clientset(t, upstream.Config()), "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
	const ttl = 2 * time.Second
	replica := harness.StartReplica(t, upstream, "--follow=configmaps", byRBAC,
		"--authorization-webhook-cache-authorized-ttl="+ttl.String(), "--authentication-token-webhook-cache-ttl=1m")
	client := must(rest.HTTPClientFor(withToken(replica, t, reader)))(t)
	answered := func(want int) func() error {
		return func() error {
			code, err := status(t.Context(), client, replica.URL+"/api/v1/configmaps?resourceVersion=0")
			if err == nil && code != want {
				return notYet("status %d", code)
			}
			return err
		}
	}
	eventually(t, "the right to read by RBAC", func() error {
		before := counter(t, replica, decidedByRBAC)
		if err := answered(http.StatusOK)(); err != nil {
			return err
		}
		if counter(t, replica, decidedByRBAC) == before {
			return notYet("asks the upstream")
		}
		return nil
	})
	upstream.Kill()
	began := time.Now()
	eventually(t, "the end of rights", answered(http.StatusServiceUnavailable))
	if took := time.Since(began); took > ttl+delay {
		t.Errorf("rights ended after %v", took)
	} else {
		t.Logf("rights ended after %v", took)
	}
	upstream.Restart()
	eventually(t, "the right to read again", answered(http.StatusOK))
}

// TestRBACNeedsRights has a replica follow RBAC objects that it may not read: it asks the
// upstream about each user, and says so.
func TestRBACNeedsRights(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	metrics := rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	own := account(t, admin, "replica", []string{"system:auth-delegator"}, append(readRules(), metrics)...)
	reader := account(t, admin, "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
	replica := harness.StartReplica(t, upstream, "--kubeconfig="+kubeconfigFor(t, upstream, own), "--follow=configmaps", byRBAC)
	eventually(t, "an answer by review", func() error {
		got, err := fetch(t.Context(), withToken(replica, t, reader), "/api/v1/configmaps?resourceVersion=0")
		if err == nil && got.status != http.StatusOK {
			return notYet("status %d", got.status)
		}
		return err
	})
	if counter(t, replica, decidedByRBAC) > 0 || counter(t, replica, decidedByReview) == 0 {
		t.Errorf("%d decided by RBAC, and %d by review", counter(t, replica, decidedByRBAC), counter(t, replica, decidedByReview))
	}
	if !strings.Contains(replica.Output(), "may not follow RBAC objects") {
		t.Errorf("nothing is said about rights:\n%s", replica.Output())
	}
}
