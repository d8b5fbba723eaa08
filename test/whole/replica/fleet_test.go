package replica

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/test/support/harness"
)

// reviewCounter is a proxy in front of an upstream that counts how many reviews of a kind it
// has at once, and what else a fleet of agents has it asked. Reviews take a while there.
type reviewCounter struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		now, most, all map[string]int
		passedOn       int
	}
}

// reviewTime is how long a review takes at least.
const reviewTime = 20 * time.Millisecond

func startReviewCounter(t *testing.T, upstream *harness.Server) *reviewCounter {
	t.Helper()
	target := must(url.Parse(upstream.URL))(t)
	next := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     must(rest.TransportFor(rest.AnonymousClientConfig(upstream.Config())))(t),
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	c := &reviewCounter{}
	c.mu.now, c.mu.most, c.mu.all = map[string]int{}, map[string]int{}, map[string]int{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if kind := filepath.Base(req.URL.Path); req.Method == http.MethodPost && strings.HasSuffix(kind, "reviews") {
			defer c.count(kind)()
			<-time.After(reviewTime)
		}
		if strings.HasPrefix(req.Header.Get("Authorization"), "Bearer agent") {
			c.mu.Lock()
			c.mu.passedOn++
			c.mu.Unlock()
		}
		next.ServeHTTP(w, req)
	}))
	c.EnableHTTP2 = true
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// count counts a review until the function that it returns is called.
func (c *reviewCounter) count(kind string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.all[kind]++
	c.mu.now[kind]++
	c.mu.most[kind] = max(c.mu.most[kind], c.mu.now[kind])
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.now[kind]--
	}
}

// TestFleetBeginsAtOnce has 400 agents, users with a token each, read at a replica that has
// just started. The replica answers all of them, and its upstream has no more reviews at once
// than the bound. More agents would wait longer for a review than the replica lets them on a
// machine that is busy.
func TestFleetBeginsAtOnce(t *testing.T) {
	t.Parallel()
	const agents = 400
	tokens := strings.Builder{}
	fmt.Fprintln(&tokens, "root,root,0,system:masters")
	for i := range agents {
		fmt.Fprintf(&tokens, "agent-%d,agent-%d,%d,agents\n", i, i, i+1)
	}
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte(tokens.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes", "--token-auth-file="+file)
	admin := clientset(t, upstream.Config())
	_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agents"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "agents"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	counter := startReviewCounter(t, upstream)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: counter.URL, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "root"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	replica := harness.StartReplica(t, upstream, "--kubeconfig="+kubeconfig, "--follow=services")
	counter.mu.Lock()
	clear(counter.mu.all)
	counter.mu.Unlock()
	readAtOnce(t, replica, agents)
	counter.mu.Lock()
	defer counter.mu.Unlock()
	if counter.mu.passedOn > 0 {
		t.Errorf("%d reads of agents were passed on", counter.mu.passedOn)
	}
	for kind, bound := range map[string]int{"tokenreviews": 25, "subjectaccessreviews": 50} {
		if most, all := counter.mu.most[kind], counter.mu.all[kind]; most > bound || most < bound/2 || all < agents {
			t.Errorf("%d %s, %d at once: the bound is %d", all, kind, most, bound)
		}
	}
}

// readAtOnce has agents read, some over each connection.
func readAtOnce(t *testing.T, replica *harness.Server, agents int) {
	t.Helper()
	const perConnection = 50
	var all sync.WaitGroup
	var client *http.Client
	for i := range agents {
		if i%perConnection == 0 {
			transport := must(rest.TLSConfigFor(rest.AnonymousClientConfig(replica.Config())))(t)
			own := &http.Transport{TLSClientConfig: transport, ForceAttemptHTTP2: true}
			t.Cleanup(own.CloseIdleConnections)
			client = &http.Client{Transport: own}
		}
		reader := client
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, replica.URL+"/api/v1/namespaces/default/services/kubernetes?resourceVersion=0", nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", fmt.Sprintf("Bearer agent-%d", i))
			resp, err := reader.Do(req)
			if err != nil {
				t.Errorf("agent %d: %v", i, err)
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("agent %d: %s", i, resp.Status)
			}
		})
	}
	all.Wait()
}
