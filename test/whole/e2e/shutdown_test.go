package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// TestTermination ends a server while it answers. Answers in flight arrive whole, watches
// end without an error, and no file is left behind.
func TestTermination(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, filepath.Join(harness.ShortTempDir(t), "d"))
	client := clientset(t, s)
	const count, size = 40, 800 << 10 // more than sockets and flow-control windows hold
	for n := range count {
		cm := configMap(fmt.Sprintf("big-%d", n))
		cm.Data["text"] = strings.Repeat("x", size)
		create(t, client, cm)
	}
	const path = "/api/v1/namespaces/default/configmaps"
	http2, http1 := s.HTTPClient(), s.HTTPClient()
	http1.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	http1.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	slow := map[string]io.ReadCloser{}
	for name, c := range map[string]*http.Client{"HTTP/2": http2, "HTTP/1.1": http1} {
		resp, err := get(t.Context(), s, c, path, "application/json")
		check(t, err)
		defer resp.Body.Close()
		slow[name] = resp.Body
	}
	watching, err := get(t.Context(), s, http2, path+"?watch=true&resourceVersion=0&fieldSelector=metadata.name=watched", "application/json")
	check(t, err)
	defer watching.Body.Close()
	create(t, client, configMap("watched"))

	s.Signal(syscall.SIGTERM)
	eventually(t, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "https://"))
		if err == nil {
			return errors.Join(errors.New("still listens"), conn.Close())
		}
		return nil
	})
	events, err := io.ReadAll(watching.Body)
	if err != nil || strings.Contains(string(events), `"ERROR"`) || !strings.Contains(string(events), `"watched"`) {
		t.Errorf("watch ended with %v after %.300q", err, events)
	}
	for name, body := range slow {
		var list corev1.ConfigMapList
		content, err := io.ReadAll(body)
		if err == nil {
			err = json.Unmarshal(content, &list)
		}
		if err != nil || len(list.Items) < count {
			t.Errorf("list over %s that was in flight has %d bytes, %d items: %v", name, len(content), len(list.Items), err)
		}
	}
	wantCleanEnd(t, s)
	s = s.Restart()
	list := versions(t, clientset(t, s))
	if len(list) < count+1 {
		t.Errorf("%d config maps after the restart", len(list))
	}
	s.Signal(os.Interrupt)
	wantCleanEnd(t, s)
}

// wantCleanEnd waits for a server that was asked to end. It checks that the server logged
// no error, and left no socket.
func wantCleanEnd(t *testing.T, s *harness.Server) {
	t.Helper()
	if err := s.Wait(waitTimeout); err != nil {
		t.Errorf("server ended with %v", err)
	}
	for line := range strings.Lines(s.Output()) {
		// etcd warns when something takes long, so only its errors count.
		etcdError := strings.HasPrefix(line, "E") && strings.Contains(line, "etcd:")
		if etcdError || strings.HasPrefix(line, "millrace:") || strings.HasPrefix(line, "panic") {
			t.Errorf("server logged %q", line)
		}
	}
	for _, socket := range []string{"client.sock", "peer.sock", "http.sock"} {
		if _, err := os.Lstat(filepath.Join(s.DataDir, "etcd", socket)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", socket, err)
		}
	}
}

// TestTerminationBeforeReady ends a server while it waits for etcd.
func TestTerminationBeforeReady(t *testing.T) {
	t.Parallel()
	s := harness.Launch(t, harness.ShortTempDir(t), "--etcd-servers=http://127.0.0.1:1")
	eventually(t, func(context.Context) error {
		_, err := os.Stat(s.Kubeconfig())
		return err
	})
	if err := s.Terminate(); err != nil {
		t.Errorf("server ended with %v: %s", err, lastLine(s.Output()))
	}
}
