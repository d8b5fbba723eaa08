package many

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/test/support/harness"
)

// restartScale is the size of a rolling restart. stock says that a stock server stands beside the
// servers.
type restartScale struct {
	servers, informers, restarts int
	interval, delay              time.Duration
	stock                        bool
}

// objectsToFollow is the number of objects before the first restart.
const objectsToFollow = 5

// TestRollingRestart restarts servers over one etcd in turn, under informers that reach
// them through a balancer, each over a connection of its own. No informer may list again.
// In the end each server has its share of the watches, and each informer all objects.
func TestRollingRestart(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Parallel()
		restartScale{servers: 2, informers: 120, restarts: 1, interval: time.Second, delay: time.Second}.run(t)
		return
	}
	restartScale{servers: 3, informers: 2000, restarts: 3, interval: 10 * time.Second, delay: 5 * time.Second}.run(t)
}

// TestRollingRestartBesideStock restarts servers beside a stock one, a kube-apiserver if the
// environment names it. Watches go to it and come from it.
func TestRollingRestartBesideStock(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("set " + longVariable + " to run it")
	}
	restartScale{servers: 2, informers: 500, restarts: 2, interval: 10 * time.Second, delay: 5 * time.Second, stock: true}.run(t)
}

func (size restartScale) run(t *testing.T) {
	etcd := harness.StartEtcd(t)
	args := append(knowing(size.interval), etcd.EtcdServers(), "--shutdown-delay-duration="+size.delay.String())
	servers := []*harness.Server{harness.Start(t, harness.ShortTempDir(t), args...)}
	for len(servers) < size.servers {
		servers = append(servers, startOther(t, servers[0], args...))
	}
	behind := servers
	if size.stock {
		behind = append(slices.Clone(servers), startStock(t, servers[0], etcd))
	}
	front := newBalancer(t, behind...)
	writer := clientset(t, servers[0])
	for i := range objectsToFollow {
		_, err := writer.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cm-", i)}}, metav1.CreateOptions{})
		check(t, err)
	}
	calls := &informerCalls{}
	stores := startInformers(t, servers[0], front.url(), size.informers, calls)
	lists := calls.lists.Load()
	for i := range size.restarts {
		n := len(servers) - 1 - i
		began := time.Now()
		check(t, servers[n].Terminate())
		stopped := time.Since(began)
		servers[n] = servers[n].Restart()
		t.Logf("server %d stopped in %v and was ready again after %v", n, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("after-", i)}}
		_, err := clientset(t, servers[n]).CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
		check(t, err)
		eventually(t, "informers have the new object", func(context.Context) error {
			missing := 0
			for _, s := range stores {
				if _, ok, _ := s.GetByKey("default/" + cm.Name); !ok {
					missing++
				}
			}
			return differ("number of informers without it", missing, 0)
		})
	}
	began := time.Now()
	client := clientset(t, servers[0])
	eventually(t, "watches are spread", func(ctx context.Context) error { return spread(ctx, client, size) })
	counts, err := watchesOfServers(t.Context(), client)
	check(t, err)
	t.Logf("watches of the servers are %v, %v after the last restart", counts, time.Since(began).Round(time.Millisecond))
	if again := calls.lists.Load() - lists; again > 0 {
		t.Errorf("%d of %d informers listed again", again, size.informers)
	}
	t.Logf("%d watches were resumed", calls.resumed.Load())
}

// startStock starts a stock server over the etcd of others.
func startStock(t *testing.T, first *harness.Server, etcd *harness.Etcd) *harness.Server {
	t.Helper()
	if program := harness.Upstream(); program != "" {
		return harness.StartUpstreamOver(t, program, first, etcd.EtcdServers(), "--endpoint-reconciler-type=none")
	}
	return startOther(t, first, etcd.EtcdServers(), "--read-path=kubernetes")
}

// spread returns an error unless each server has at most a fifth more watches than its
// share.
func spread(ctx context.Context, client kubernetes.Interface, size restartScale) error {
	counts, err := watchesOfServers(ctx, client)
	if err != nil {
		return err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) != size.servers || total < size.informers && !size.stock || slices.Max(counts) > total/size.servers*6/5 {
		return fmt.Errorf("servers have %v watches", counts)
	}
	return nil
}

// watchesOfServers returns the numbers of watches that the servers tell each other.
func watchesOfServers(ctx context.Context, client kubernetes.Interface) (counts []int, err error) {
	leases, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "millrace.io/server"})
	if err != nil {
		return nil, err
	}
	for i := range leases.Items {
		var state struct{ Watches int }
		if err := json.Unmarshal([]byte(leases.Items[i].Annotations["millrace.io/server-state"]), &state); err != nil {
			return nil, err
		}
		counts = append(counts, state.Watches)
	}
	return counts, nil
}

// informerCalls count what informers ask for: lists, with watches that begin with all
// objects, and watches that go on where an earlier one ended.
type informerCalls struct{ lists, resumed atomic.Int64 }

type countingTransport struct {
	http.RoundTripper
	calls *informerCalls
}

// RoundTrip implements http.RoundTripper.
func (c countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if q := req.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" {
		c.calls.lists.Add(1)
	} else {
		c.calls.resumed.Add(1)
	}
	return c.RoundTripper.RoundTrip(req)
}

// startInformers starts informers of config maps, and waits until they have all.
func startInformers(t *testing.T, s *harness.Server, url string, n int, calls *informerCalls) (stores []cache.Store) {
	t.Helper()
	return startInformersOf(t, s, url, n, calls, func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().ConfigMaps().Informer()
	})
}

// startInformersOf starts informers of a resource that a factory makes.
func startInformersOf(t *testing.T, s *harness.Server, url string, n int, calls *informerCalls, of func(informers.SharedInformerFactory) cache.SharedIndexInformer) (stores []cache.Store) {
	t.Helper()
	config := rest.CopyConfig(s.Config())
	config.Host = url
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	var synced []cache.InformerSynced
	for range n {
		own := s.HTTPClient()
		own.Transport = countingTransport{own.Transport, calls}
		client, err := kubernetes.NewForConfigAndClient(config, own)
		check(t, err)
		informer := of(informers.NewSharedInformerFactory(client, 0))
		stores, synced = append(stores, informer.GetStore()), append(synced, informer.HasSynced)
		go informer.Run(stop)
	}
	eventually(t, "informers have all objects", func(context.Context) error {
		missing := 0
		for _, done := range synced {
			if !done() {
				missing++
			}
		}
		return differ("number of informers that have not", missing, 0)
	})
	return stores
}
