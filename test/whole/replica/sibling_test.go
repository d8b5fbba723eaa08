package replica

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/test/support/harness"
)

// TestStartsFromAnotherReplica starts replicas that load the objects of another one: the
// upstream is asked for one watch and for no list of all, and watches go on from there. What they
// follow later is loaded from the upstream.
func TestStartsFromAnotherReplica(t *testing.T) {
	t.Parallel()
	upstream, log := startAudited(t)
	admin := clientset(t, upstream.Config())
	first := harness.StartReplica(t, upstream, "--follow=configmaps,services")
	last := createMaps(t, admin, "before", 5)
	awaitReached(t, first, last)
	position := log.position(t)

	const count = 2
	args := []string{"--follow=configmaps", "--start-from=" + first.Kubeconfig()}
	for i := range count {
		if i > 0 {
			args = []string{"--follow=configmaps", "--start-from=" + withoutScheme(t, first), "--kubeconfig=" + withoutScheme(t, upstream)}
		}
		second := harness.StartReplica(t, upstream, args...)
		client := clientset(t, second.Config())
		watching := must(client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: last}))(t)
		defer watching.Stop()
		last = createMaps(t, admin, fmt.Sprint("after-", i), 1)
		if cm, ok := (<-watching.ResultChan()).Object.(*corev1.ConfigMap); !ok || cm.ResourceVersion != last {
			t.Errorf("replica %d: the first event is %v, and was to be of %s", i, cm, last)
		}
		if list := must(client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 6+i {
			t.Errorf("replica %d has %d objects", i, len(list.Items))
		}
		eventually(t, "the start is over", func() error {
			if !strings.Contains(second.Output(), "millrace is ready") {
				return notYet("the replica has said %s", second.Output())
			}
			return nil
		})
		_ = must(client.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{}))(t)
		eventually(t, "the upstream is asked for services", func() error {
			if made := log.feeds(t, "services", position); len(made.loads) != i+1 {
				return notYet("after replica %d for %+v", i, made)
			}
			return nil
		})
	}
	if made := log.feeds(t, "configmaps", position); len(made.loads) > 0 || len(made.resumed) != count {
		t.Errorf("the upstream was asked for %+v", made)
	}
}

// withoutScheme returns a kubeconfig with an address without a scheme, which means http, as it leads
// to a `kubectl proxy`. One with the administrator's credentials stands in front of the server.
func withoutScheme(t *testing.T, s *harness.Server) string {
	t.Helper()
	server := must(url.Parse(s.URL))(t)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, Transport: must(rest.TransportFor(s.Config()))(t), FlushInterval: -1,
	})
	t.Cleanup(proxy.Close)
	config := must(clientcmd.LoadFromFile(s.Kubeconfig()))(t)
	for name := range config.Clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: strings.TrimPrefix(proxy.URL, "http://")}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestStartsWithoutAnotherReplica starts replicas that are to load the objects of a server
// of another cluster, or of one that is away: they load those of the upstream, and say why once.
func TestStartsWithoutAnotherReplica(t *testing.T) {
	t.Parallel()
	upstream, foreign := startUpstream(t), startUpstream(t)
	createMaps(t, clientset(t, upstream.Config()), "own", 3)
	createMaps(t, clientset(t, foreign.Config()), "foreign", 2)
	for _, reason := range []string{"it is of cluster", "connection refused"} {
		replica := harness.StartReplica(t, upstream, "--follow=configmaps,pods", "--start-from="+foreign.Kubeconfig())
		list := must(clientset(t, replica.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))(t)
		if len(list.Items) != 3 {
			t.Errorf("the replica has %d objects", len(list.Items))
		}
		if said := replica.Output(); strings.Count(said, "--start-from") != 1 || !strings.Contains(said, reason) {
			t.Errorf("the replica has said\n%s", said)
		}
		foreign.Kill()
	}
}
