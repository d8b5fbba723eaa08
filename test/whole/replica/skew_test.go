package replica

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

// addFutureField adds a field to pods that this version's types do not know.
func addFutureField(path string, line []byte) []byte {
	if !strings.Contains(path, "/pods") {
		return line
	}
	return bytes.ReplaceAll(line, []byte(`"spec":{`), []byte(`"spec":{"fieldOfTheFuture":{"list":[null,1.50]},`))
}

func podOn(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
		NodeName: node, ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "image"}},
	}}
}

// TestNewerUpstream stands in front of a server that is two minor versions newer and has a
// field of pods that is not known here. Reads of pods are answered with that field, the
// watches of an agent by its node among them.
func TestNewerUpstream(t *testing.T) {
	t.Parallel()
	stock := startUpstream(t)
	client := clientset(t, stock.Config())
	must(client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	for i := range 4 {
		must(client.CoreV1().Pods("default").Create(t.Context(), podOn(fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", i%2)), metav1.CreateOptions{}))(t)
	}
	upstream := harness.StartVersionProxy(t, stock, 2, addFutureField)
	replica := harness.StartReplica(t, upstream, "--follow=pods")

	t.Run("reads", func(t *testing.T) {
		for _, path := range []string{
			"/api/v1/pods?resourceVersion=0", "/api/v1/namespaces/default/pods?resourceVersion=0&limit=500",
			"/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1", "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dpod-2",
			"/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dabsent", "/api/v1/namespaces/default/pods/pod-3?resourceVersion=0",
		} {
			ours, theirs := must(fetch(t.Context(), replica.Config(), path))(t), must(fetch(t.Context(), upstream.Config(), path))(t)
			if !strings.Contains(path, "absent") && !strings.Contains(theirs.body, "fieldOfTheFuture") {
				t.Fatalf("%s: the upstream has no new field: %s", path, theirs.body)
			}
			if ours.status != theirs.status || sameRevision(ours.body) != sameRevision(theirs.body) {
				t.Errorf("%s\nours   %s\ntheirs %s", path, ours.body, theirs.body)
			}
		}
	})
	t.Run("agent", func(t *testing.T) { watchAsAgent(t, client, upstream.Config(), replica.Config()) })
	t.Run("report", func(t *testing.T) {
		eventually(t, "the report", func() error {
			made := serverreport.ReplicaReport{}
			a := must(fetch(t.Context(), replica.Config(), "/debug/millrace/replica"))(t)
			if err := json.Unmarshal([]byte(a.body), &made); err != nil {
				return fmt.Errorf("%w: %s", err, a.body)
			}
			answered := made.Answered["LIST"] > 0 && made.Answered["GET"] > 0 && made.Answered["WATCH"] > 0 // which are counted at their end
			if !strings.HasSuffix(made.Skew, "served as the upstream sends it") || !answered || made.PassedOn["version-skew"] > 0 {
				return notYet("the report says %q, answered %v, passed on %v", made.Skew, made.Answered, made.PassedOn)
			}
			return nil
		})
	})
}

// TestUpgradedUpstream upgrades the upstream by a minor version while a watch is open. The watch
// ends before an event would lack a field of the new version. The replica starts again by itself,
// while the upstream comes and goes, and then answers with that field.
func TestUpgradedUpstream(t *testing.T) {
	t.Parallel()
	stock := startUpstream(t)
	client := clientset(t, stock.Config())
	must(client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	must(client.CoreV1().Pods("default").Create(t.Context(), podOn("before", "node"), metav1.CreateOptions{}))(t)
	var upgraded atomic.Bool
	upstream := harness.StartChangingVersionProxy(t, stock, 0, func(path string, line []byte) []byte {
		if !upgraded.Load() {
			return line
		}
		return addFutureField(path, line)
	})
	replica := harness.StartReplica(t, upstream.Server, "--follow=pods")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	watched := openWatch(ctx, t, replica.Config(), "/api/v1/pods?watch=true&resourceVersion=0")
	if first := watched.next(t); strings.Contains(first, "fieldOfTheFuture") {
		t.Fatalf("the field is there before the upgrade: %s", first)
	}
	upgraded.Store(true)
	var published atomic.Int64
	upstream.RefuseBy(func(path string) bool {
		if !strings.HasSuffix(path, "/extension-apiserver-authentication") {
			return false
		}
		n := published.Add(1)
		return n == 4 || n == 6 || n == 8 // the third question of the start, and one of each next one
	})
	upstream.Upgrade(1)
	must(client.CoreV1().Pods("default").Create(ctx, podOn("after", "node"), metav1.CreateOptions{}))(t)
	for watched.lines.Scan() {
		if frame := watched.lines.Text(); strings.Contains(frame, `"after"`) && !strings.Contains(frame, "fieldOfTheFuture") {
			t.Fatalf("an event lost a field: %s", frame)
		}
	}
	eventually(t, "the replica answers with the field", func() error {
		a, err := fetch(ctx, replica.Config(), "/api/v1/pods?resourceVersion=0")
		if err != nil {
			return err
		}
		if a.status != http.StatusOK || strings.Count(a.body, "fieldOfTheFuture") != 2 {
			return notYet("%d %s", a.status, a.body)
		}
		made := serverreport.ReplicaReport{}
		report, err := fetch(ctx, replica.Config(), "/debug/millrace/replica")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(report.body), &made); err != nil {
			return fmt.Errorf("%w: %s", err, report.body)
		}
		if made.Answered["LIST"] == 0 {
			return notYet("the report says %q, answered %v, passed on %v", made.Skew, made.Answered, made.PassedOn)
		}
		return nil
	})
}

// sameRevision cuts the beginning of a list, which has the list's own revision.
func sameRevision(body string) string {
	if _, items, ok := strings.Cut(body, `"items":`); ok {
		return items
	}
	return body
}

// watchAsAgent watches the pods of a node at both servers while pods come and go.
func watchAsAgent(t *testing.T, client kubernetes.Interface, theirs, ours *rest.Config) {
	const query = "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&fieldSelector=spec.nodeName%3Dnode-1"
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	at, there := openWatch(ctx, t, ours, query), openWatch(ctx, t, theirs, query)
	must(client.CoreV1().Pods("default").Create(ctx, podOn("pod-9", "node-1"), metav1.CreateOptions{}))(t)
	must(client.CoreV1().Pods("default").Create(ctx, podOn("elsewhere", "node-0"), metav1.CreateOptions{}))(t)
	zero := int64(0)
	if err := client.CoreV1().Pods("default").Delete(ctx, "pod-1", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	for seen := false; !seen; {
		want := there.next(t)
		for strings.Contains(want, string(watch.Bookmark)) && !strings.Contains(want, "initial-events-end") {
			want = there.next(t)
		}
		got := at.next(t)
		if strings.Contains(want, string(watch.Bookmark)) {
			want, got = withoutRevision(want), withoutRevision(got)
		}
		if got != want {
			t.Fatalf("ours   %s\ntheirs %s", got, want)
		}
		seen = strings.Contains(want, `"DELETED"`)
	}
}

// withoutRevision cuts the revision out of a bookmark.
func withoutRevision(frame string) string {
	before, after, _ := strings.Cut(frame, `"resourceVersion":"`)
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

// openedWatch is a watch that is read line by line.
type openedWatch struct{ lines *bufio.Scanner }

func openWatch(ctx context.Context, t *testing.T, config *rest.Config, path string) *openedWatch {
	t.Helper()
	client := must(rest.HTTPClientFor(config))(t)
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil))(t)
	resp := must(client.Do(req))(t)
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("watch: %s %s", resp.Status, body)
	}
	return &openedWatch{bufio.NewScanner(resp.Body)}
}

// next returns the next frame.
func (w *openedWatch) next(t *testing.T) string {
	t.Helper()
	if !w.lines.Scan() {
		t.Fatalf("the watch has ended: %v", w.lines.Err())
	}
	return w.lines.Text()
}
