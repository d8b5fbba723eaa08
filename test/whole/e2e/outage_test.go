package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// TestEtcdOutage stops the etcd of a server, and then kills it. Reads of any state go on,
// consistent reads get an error that asks to retry, and the server recovers by itself.
func TestEtcdOutage(t *testing.T) {
	t.Parallel() // it waits for timeouts
	etcd := harness.StartEtcd(t)
	s := harness.Start(t, harness.ShortTempDir(t), "--etcd-servers="+etcd.Endpoint)
	client := clientset(t, s)
	create(t, client, configMap("before"))
	watcher, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	check(t, err)
	defer watcher.Stop()
	expectAdded(t, watcher, "before")

	t.Run("stopped", func(t *testing.T) {
		etcd.Signal(syscall.SIGSTOP)
		defer etcd.Signal(syscall.SIGCONT)
		checkOutage(t, s)
	})
	checkRecovered(t, s, client, watcher, "stopped")

	t.Run("killed", func(t *testing.T) {
		etcd.Kill()
		checkOutage(t, s)
	})
	etcd = etcd.Restart()
	checkRecovered(t, s, client, watcher, "killed")

	t.Run("ends without etcd", func(t *testing.T) {
		// The output so far is known by its end, since its beginning may get lost.
		before := s.Output()
		before = before[max(0, len(before)-200):]
		etcd.Kill()
		eventually(t, func(context.Context) error {
			since := s.Output()
			if _, added, ok := strings.Cut(since, before); ok {
				since = added
			}
			if !strings.Contains(since, "Failed to update lease") && !strings.Contains(since, "Failed to ensure lease exists") {
				return errors.New("the server has not yet failed to renew its lease")
			}
			return nil
		})
		if err := s.Terminate(); err == nil || !strings.Contains(lastLine(s.Output()), "etcd does not answer") {
			t.Errorf("server ended with %v: %s", err, lastLine(s.Output()))
		}
	})
}

// checkOutage checks the answers of a server whose etcd does not answer.
func checkOutage(t *testing.T, s *harness.Server) {
	http := s.HTTPClient()
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, path := range []string{maps + "?resourceVersion=0", maps + "/before?resourceVersion=0"} {
		for _, accept := range []string{"application/json", tableAccept} {
			if code, body, err := fetch(t.Context(), s, http, path, accept); err != nil || code != 200 || !strings.Contains(body, "before") {
				t.Errorf("GET %s as %s: %v, code %d: %.300s", path, accept, err, code, body)
			}
		}
	}
	type answer struct{ request, problem string }
	consistent := []string{maps, maps + "/before", maps + "?limit=1"}
	answers := make(chan answer)
	requests := 0
	for _, path := range consistent {
		for _, accept := range []string{"application/json", tableAccept} {
			requests++
			go func() { answers <- answer{path + " as " + accept, checkRetriable(t.Context(), s, http, path, accept)} }()
		}
	}
	for range requests {
		if a := <-answers; a.problem != "" {
			t.Errorf("GET %s: %s", a.request, a.problem)
		}
	}
	eventually(t, func(ctx context.Context) error {
		code, body, err := fetch(ctx, s, http, "/readyz?verbose", "")
		if err != nil {
			return err
		}
		if code == 200 || !strings.Contains(body, "[-]etcd") && !strings.Contains(body, "[-]millrace-feed") {
			return fmt.Errorf("readyz answers %d: %s", code, body)
		}
		return nil
	})
}

// checkRetriable sends a consistent read. The answer should ask the client to retry. If it
// does not, checkRetriable describes the answer; otherwise it returns the empty string.
func checkRetriable(ctx context.Context, s *harness.Server, client *http.Client, path, accept string) string {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	resp, err := get(ctx, s, client, path, accept)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var status metav1.Status
	err = json.NewDecoder(resp.Body).Decode(&status)
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode != 503 && resp.StatusCode != 504 && resp.StatusCode != 429:
		return fmt.Sprintf("code %d: %s", resp.StatusCode, status.Message)
	case resp.Header.Get("Retry-After") == "" && (status.Details == nil || status.Details.RetryAfterSeconds == 0):
		return fmt.Sprintf("code %d does not say when to retry: %+v", resp.StatusCode, status)
	}
	return ""
}

// checkRecovered waits until the server is ready, creates a config map, reads it back,
// and waits for it on a watch from before the outage.
func checkRecovered(t *testing.T, s *harness.Server, client kubernetes.Interface, watcher watch.Interface, name string) {
	t.Helper()
	eventually(t, func(context.Context) error { return s.Ready() })
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{})
		return err
	})
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("consistent read after the outage: %v", err)
	}
	if versions(t, client)["default/"+name] == "" {
		t.Errorf("list after the outage lacks %s", name)
	}
	expectAdded(t, watcher, name)
}

// expectAdded checks that the next event adds an object.
func expectAdded(t *testing.T, watcher watch.Interface, name string) {
	t.Helper()
	event := nextEvent(t, watcher)
	if got := wantObject(t, event); event.Type != watch.Added || got.GetName() != name {
		t.Errorf("watch delivered %s of %s, want ADDED of %s", event.Type, got.GetName(), name)
	}
}
