package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/test/support/harness"
)

// cluster is an upstream with replicas in front of it, Kubernetes' controllers and
// scheduler behind one of these, and stub kubelets.
type cluster struct {
	upstream *harness.Server
	// sides begin with the straight one.
	sides   []*side
	kubelet *stubKubelet
	bin     string // the directory of kubectl
}

// side is a way to the upstream, and a namespace that is used by that way only.
type side struct {
	*harness.Server
	*cluster
	// name is that of the namespace. All have the same length, so that columns align.
	name string
	// what says how the upstream is reached.
	what string
	// dir is the directory in which commands run. It has the manifests and the kubeconfig.
	dir string
}

// newCluster starts everything. The control plane reads through the replica of a feed.
func newCluster(t *testing.T, feed string) *cluster {
	t.Helper()
	c := &cluster{upstream: startUpstream(t), bin: t.TempDir()}
	harness.InstallKubectl(t, c.bin, os.Getenv(kubectlVariable))
	pki := filepath.Join(c.upstream.DataDir, "pki")
	c.sides = []*side{
		{Server: c.upstream, name: "lane-a", what: "straight"},
		// Users of certificates are handed on by both ways that there are.
		{name: "lane-b", what: "etcd", Server: harness.StartReplica(t, c.upstream, c.upstream.EtcdServers(),
			"--proxy-client-cert-file="+filepath.Join(pki, "front-proxy-client.crt"),
			"--proxy-client-key-file="+filepath.Join(pki, "front-proxy-client.key"))},
		{name: "lane-c", what: "api", Server: harness.StartReplica(t, c.upstream)},
	}
	tier := c.sides[1]
	if feed == "api" {
		tier = c.sides[2]
	}
	harness.StartControlPlane(t, c.upstream, tier.Server)
	c.kubelet = startKubelet(t)
	c.kubelet.run(t, clientset(t, tier.Config()), c.nodes())
	for _, s := range c.sides {
		s.cluster, s.dir = c, t.TempDir()
		s.prepare(t)
	}
	return c
}

// startUpstream starts a stock server: our program with Kubernetes' read path, or the
// kube-apiserver that the environment names.
func startUpstream(t *testing.T) *harness.Server {
	t.Helper()
	first := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes")
	if program := harness.Upstream(); program != "" {
		return harness.StartUpstream(t, program, first, "--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1")
	}
	return first
}

// nodes names two nodes for each side.
func (c *cluster) nodes() map[string]string {
	sideOf := map[string]string{}
	for _, s := range c.sides {
		for i := range 2 {
			sideOf[fmt.Sprintf("node-%d.%s", i+1, s.name)] = s.name
		}
	}
	return sideOf
}

// prepare writes the kubeconfig and the manifests of a side, and makes its namespace.
func (s *side) prepare(t *testing.T) {
	t.Helper()
	config := must(clientcmd.LoadFromFile(s.Server.Kubeconfig()))(t)
	for _, one := range config.Contexts {
		one.Namespace = s.name
	}
	for _, one := range config.Clusters {
		one.Server = s.URL // a kube-apiserver has a port of its own
	}
	check(t, clientcmd.WriteToFile(*config, s.kubeconfig()))
	manifests := must(filepath.Glob("testdata/*.yaml"))(t)
	for _, file := range manifests {
		text := must(os.ReadFile(file))(t)
		check(t, os.WriteFile(filepath.Join(s.dir, filepath.Base(file)), []byte(s.expand(string(text))), 0o600))
	}
	if got := s.run(t.Context(), "kubectl create namespace $SIDE && kubectl wait --for=create serviceaccount/default --timeout=60s"); got.status != 0 {
		t.Fatalf("make namespace %s: %s%s", s.name, got.stdout, got.stderr)
	}
}

func (s *side) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// eachSide runs a test for each side, all at once.
func (c *cluster) eachSide(t *testing.T, test func(t *testing.T, s *side)) {
	for _, s := range c.sides {
		t.Run(s.what, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// onEachSide runs a function for each side, all at once, and returns what it returned.
func onEachSide[T any](c *cluster, f func(s *side) T) []T {
	results := make([]T, len(c.sides))
	var running sync.WaitGroup
	for i, s := range c.sides {
		running.Go(func() { results[i] = f(s) })
	}
	running.Wait()
	return results
}

func clientset(tb testing.TB, config *rest.Config) *kubernetes.Clientset {
	tb.Helper()
	return must(kubernetes.NewForConfig(config))(tb)
}
