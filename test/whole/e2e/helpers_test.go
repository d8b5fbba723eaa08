package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// waitTimeout bounds every wait. It is generous, since machines are shared.
const waitTimeout = time.Minute

// eventually polls until the condition returns nil.
func eventually(t *testing.T, condition func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("the condition is not met within %v: %v", waitTimeout, last)
	}
}

func clientset(t *testing.T, s *harness.Server) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	return client
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}
}

func create(t *testing.T, client kubernetes.Interface, cm *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	created, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create config map %s: %v", cm.Name, err)
	}
	return created
}

// get sends a GET for a path to a server. accept may be empty. The caller closes the body.
func get(ctx context.Context, s *harness.Server, client *http.Client, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	return client.Do(req)
}

// fetch sends a GET as get does, and returns the status code and the body.
func fetch(ctx context.Context, s *harness.Server, client *http.Client, path, accept string) (int, string, error) {
	resp, err := get(ctx, s, client, path, accept)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// hash returns a hash of a directory: names, modes and contents. It leaves out the lock,
// which names the process that holds it, and sockets.
func hash(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "lock" || entry.Type()&fs.ModeSocket != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode())
		if !info.Mode().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		sum.Write(data)
		return err
	})
	if err != nil {
		t.Fatalf("hash %s: %v", dir, err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// lastLine returns the last line of an output. It ignores lines that gRPC logs while the
// process ends.
func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for len(lines) > 1 && strings.Contains(lines[len(lines)-1], "grpc: addrConn.createTransport failed") {
		lines = lines[:len(lines)-1]
	}
	return lines[len(lines)-1]
}

func writeFile(t *testing.T, file, content string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatalf("write file: %v", err)
	}
	return file
}

// copyDir copies a data directory that no server uses, and returns the copy.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(harness.ShortTempDir(t), "d")
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		return copySparse(path, target)
	})
	if err != nil {
		t.Fatalf("copy %s: %v", from, err)
	}
	return to
}

// copySparse copies a file without writing the zeros at its end, with which etcd
// preallocates its log.
func copySparse(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	used := bytes.TrimRight(data, "\x00")
	if err := os.WriteFile(to, used, 0o600); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(data)))
}

// nextEvent returns a watch's next event that is not a bookmark.
func nextEvent(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				t.Fatal("watch ended")
			}
			if event.Type != watch.Bookmark {
				return event
			}
		case <-timeout:
			t.Fatalf("no event within %v", waitTimeout)
		}
	}
}

// wantObject returns an event's object. The event must not be an error.
func wantObject(t *testing.T, event watch.Event) metav1.Object {
	t.Helper()
	if event.Type == watch.Error {
		t.Fatalf("watch error: %v", event.Object)
	}
	obj, err := meta.Accessor(event.Object)
	check(t, err)
	return obj
}
