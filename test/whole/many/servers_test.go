package many

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// knowing are the flags of servers that know each other.
func knowing(interval time.Duration) []string {
	return []string{"--server-leases=true", "--rebalance-watches=10", "--cache-check-interval=" + interval.String()}
}

// startOther starts a server that has the authority of another one, so that clients of
// either are clients of both.
func startOther(t *testing.T, first *harness.Server, args ...string) *harness.Server {
	t.Helper()
	dir := harness.ShortTempDir(t)
	check(t, os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(first.DataDir, "pki"))))
	return harness.Start(t, dir, args...)
}

func clientset(t *testing.T, s *harness.Server) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	check(t, err)
	return client
}

// get returns the status code and the body of an answer.
func get(t *testing.T, s *harness.Server, path string) (code int, body string) {
	t.Helper()
	resp, err := s.HTTPClient().Get(s.URL + path)
	check(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(content)
}

func changed(cm *corev1.ConfigMap, value string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Data = map[string]string{"value": value}
	return cm
}

// TestCorruptedCacheIsReplaced has a server lose an event, so that its cache is wrong. The
// server must leave the balancer, tell the watches of the resource to list again, and come
// back with what etcd has. The other server stays ready.
func TestCorruptedCacheIsReplaced(t *testing.T) {
	t.Parallel()
	interval, objects := time.Second, 100
	if os.Getenv(longVariable) != "" {
		interval, objects = 10*time.Second, 100_000
	}
	etcd := harness.StartEtcd(t)
	proxy := harness.StartEtcdProxy(t, etcd)
	right := harness.Start(t, harness.ShortTempDir(t), append(knowing(interval), etcd.EtcdServers())...)
	if output, code := harness.Run(t, "fill", "--configmaps="+fmt.Sprint(objects), "--configmap-size=1000", etcd.EtcdServers()); code != 0 {
		t.Fatalf("fill: %s", output)
	}
	wrong := startOther(t, right, append(knowing(interval), proxy.EtcdServers())...)
	a, b := clientset(t, right), clientset(t, wrong)
	maps := func(c *kubernetes.Clientset) interface {
		Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error)
		Update(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error)
		Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
		Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	} {
		return c.CoreV1().ConfigMaps("default")
	}
	victim, err := maps(a).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "victim"}, Data: map[string]string{"value": "old"}}, metav1.CreateOptions{})
	check(t, err)
	w, err := maps(b).Watch(t.Context(), metav1.ListOptions{ResourceVersion: victim.ResourceVersion})
	check(t, err)
	defer w.Stop()
	_, err = maps(b).Get(t.Context(), "victim", metav1.GetOptions{}) // so that its creation is not lost, too
	check(t, err)

	proxy.Lose("/registry/configmaps/default/victim")
	victim, err = maps(a).Update(t.Context(), changed(victim, "new"), metav1.UpdateOptions{})
	check(t, err)
	began := time.Now()
	stale, err := maps(b).Get(t.Context(), "victim", metav1.GetOptions{})
	check(t, err)
	if stale.Data["value"] != "old" {
		t.Fatalf("the event was not lost: the value is %q", stale.Data["value"])
	}
	notReady := func(context.Context) error {
		if code, body := get(t, wrong, "/readyz?verbose"); code == http.StatusOK || !strings.Contains(body, "[-]millrace-cache") {
			return fmt.Errorf("readyz says %d: %s", code, body)
		}
		return nil
	}
	eventually(t, "the server with the wrong cache is not ready", notReady)
	left := time.Since(began)
	proxy.Lose("")
	eventually(t, "the server is ready again", func(context.Context) error { return wrong.Ready() })
	t.Logf("%d objects, checked every %v: not ready after %v, ready again after %v", objects, interval, left.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	got, err := maps(b).Get(t.Context(), "victim", metav1.GetOptions{})
	check(t, err)
	if got.Data["value"] != "new" || got.ResourceVersion != victim.ResourceVersion {
		t.Errorf("got %v at %s, want what the other server wrote at %s", got.Data, got.ResourceVersion, victim.ResourceVersion)
	}
	wantExpired(t, w)
	check(t, right.Ready())
	if _, metrics := get(t, wrong, "/metrics"); !strings.Contains(metrics, `millrace_cache_digest_mismatch_total{group="",resource="configmaps"} 1`) {
		t.Error("the metric does not count one mismatch")
	}
	if _, metrics := get(t, right, "/metrics"); strings.Contains(metrics, "millrace_cache_digest_mismatch_total{") {
		t.Error("the other server counts a mismatch")
	}
	if !strings.Contains(wrong.Output(), "/registry/configmaps/default/victim (cache ") {
		t.Error("the log does not name the object")
	}
}

// wantExpired reads a watch to its end, which must be a 410.
func wantExpired(t *testing.T, w watch.Interface) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch ended without a reason")
			}
			if e.Type == watch.Error {
				if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) {
					t.Errorf("the watch ended with %v", err)
				}
				return
			}
		case <-timeout:
			t.Fatal("the watch goes on")
		}
	}
}

// TestServerBehindAnswersLater brings resource versions of one server to another one that has
// not seen them yet, for longer than Kubernetes waits. Reads wait, and none fails.
func TestServerBehindAnswersLater(t *testing.T) {
	t.Parallel()
	etcd := harness.StartEtcd(t)
	proxy := harness.StartEtcdProxy(t, etcd)
	ahead := harness.Start(t, harness.ShortTempDir(t), etcd.EtcdServers())
	behind := startOther(t, ahead, proxy.EtcdServers())
	a, b := clientset(t, ahead).CoreV1().ConfigMaps("default"), clientset(t, behind).CoreV1().ConfigMaps("default")
	first, err := a.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	check(t, err)
	if _, err := b.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy.Hold()
	second, err := a.Update(t.Context(), changed(first, "two"), metav1.UpdateOptions{})
	check(t, err)

	reads := map[string]func() error{
		"get": func() error {
			one, err := b.Get(t.Context(), "one", metav1.GetOptions{ResourceVersion: second.ResourceVersion})
			if err == nil && one.Data["value"] == "" {
				err = errors.New("the object is old")
			}
			return err
		},
		"list": func() error {
			list, err := b.List(t.Context(), metav1.ListOptions{ResourceVersion: second.ResourceVersion})
			if err == nil && list.Items[len(list.Items)-1].Data["value"] == "" {
				err = errors.New("the list is old")
			}
			return err
		},
		"watch": func() error {
			w, err := b.Watch(t.Context(), metav1.ListOptions{ResourceVersion: second.ResourceVersion})
			if err != nil {
				return err
			}
			defer w.Stop()
			if e := <-w.ResultChan(); e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).Data["value"] != "three" {
				return fmt.Errorf("the watch begins with %v", e)
			}
			return nil
		},
	}
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(reads))
	for name, read := range reads {
		go func() { results <- result{name, read()} }()
	}
	// Kubernetes gives up after 3 s.
	select {
	case r := <-results:
		t.Fatalf("%s ended before its revision was there: %v", r.name, r.err)
	case <-time.After(4 * time.Second):
	}
	if _, err := a.Update(t.Context(), changed(second, "three"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy.Pass()
	for range reads {
		if r := <-results; r.err != nil {
			t.Errorf("%s: %v", r.name, r.err)
		}
	}
}
