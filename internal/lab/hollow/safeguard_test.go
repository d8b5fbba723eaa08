package hollow_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// occupiedAPI has all nodes already, with the given labels.
type occupiedAPI struct {
	scriptedAPI
	labels   map[string]string
	reported context.CancelFunc // is called when a node's status is patched

	writes struct {
		sync.Mutex
		all []string // but those of the nodes themselves
	}
}

func (a *occupiedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isNode := strings.HasPrefix(r.URL.Path, "/api/v1/nodes")
	switch {
	case isNode && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusConflict)
		return
	case isNode && r.Method == http.MethodGet && r.URL.RawQuery == "":
		writeProtobuf(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t-00000", UID: "real", Labels: a.labels}})
		return
	case r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "reviews"):
		a.writes.Lock()
		a.writes.all = append(a.writes.all, r.Method+" "+r.URL.Path)
		a.writes.Unlock()
	}
	if r.Method == http.MethodPatch {
		a.reported()
	}
	a.scriptedAPI.ServeHTTP(w, r)
}

// TestNodesOfOthers runs nodes whose names are taken. A node of an earlier run goes on. One of
// somebody else may be a real one: the run ends, and has touched nothing of it.
func TestNodesOfOthers(t *testing.T) {
	for name, labels := range map[string]map[string]string{"real": {"kubernetes.io/os": "linux"}, "another run's": {hollow.Label: "u"}, "own": {hollow.Label: "t"}} {
		t.Run(name, func(t *testing.T) {
			ctx, done := context.WithTimeout(t.Context(), patience)
			defer done()
			api := &occupiedAPI{labels: labels, reported: done}
			report, err := hollow.Run(ctx, hollow.Config{
				Name: "t", Nodes: 1, Profiles: profiles(t, "agents: []"), Namespace: "default", Start: hollow.StartStorm, REST: serve(t, api),
			})
			api.writes.Lock()
			defer api.writes.Unlock()
			if name == "own" {
				if err != nil || !slices.Contains(api.writes.all, "PATCH /api/v1/nodes/t-00000/status") {
					t.Errorf("error %v, writes %q", err, api.writes.all)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "choose another --name") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v", err)
			}
			if report != nil || len(api.writes.all) > 0 {
				t.Errorf("report %v, writes %q", report, api.writes.all)
			}
		})
	}
}

// carelessAPI ignores all selectors.
type carelessAPI struct {
	mu struct {
		sync.Mutex
		deleted       []string
		unconditional bool // some object was deleted whatever its UID
	}
}

func (a *carelessAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ours := map[string]string{hollow.Label: "t"}
	pod := func(name, node string, labels map[string]string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-of-" + name), Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
	}
	var answer any = corev1.PodList{}
	switch path := r.URL.Path; {
	case r.Method == http.MethodDelete:
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.mu.deleted = append(a.mu.deleted, path)
		a.mu.unconditional = a.mu.unconditional || !bytes.Contains(body, []byte("preconditions")) || !bytes.Contains(body, []byte("uid-of-"))
		a.mu.Unlock()
		if strings.HasPrefix(path, "/apis/apps/v1/") { // another one by now
			status := apierrors.NewConflict(schema.GroupResource{Group: "apps"}, "a", nil).ErrStatus
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(status)
			return
		}
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		(&scriptedAPI{}).ServeHTTP(w, r)
		return
	case path == "/api/v1/nodes":
		answer = corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, {ObjectMeta: metav1.ObjectMeta{Name: "t-00000", UID: "uid-of-t", Labels: ours}}}}
	case path == "/apis/apps/v1/deployments", path == "/apis/apps/v1/replicasets":
		answer = corev1.PodList{Items: []corev1.Pod{pod("real", "", nil), pod("another-run", "", map[string]string{hollow.Label: "y"}), pod("own", "", ours)}}
	case path == "/api/v1/pods":
		answer = corev1.PodList{Items: []corev1.Pod{pod("real", "real", nil), pod("pending", "", nil), pod("guest", "t-00000", nil), pod("own", "", ours)}}
	}
	text, _ := json.Marshal(answer)
	list := map[string]any{}
	_ = json.Unmarshal(text, &list)
	if r.Method == http.MethodGet {
		list["apiVersion"], list["kind"] = "v1", "PodList"
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// TestDeleteChecksWhatItFinds removes a run from a server that ignores selectors.
func TestDeleteChecksWhatItFinds(t *testing.T) {
	api := &carelessAPI{}
	config := serve(t, api)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
		"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, config.Host, base64.StdEncoding.EncodeToString(config.CAData))
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := hollow.NewCommand(hollow.Streams{Out: io.Discard, Err: io.Discard})
	cmd.SetArgs([]string{"--kubeconfig=" + kubeconfig, "--name=t", "--delete"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{ // what makes pods comes first
		"/apis/apps/v1/namespaces/n/deployments/own", "/apis/apps/v1/namespaces/n/replicasets/own",
		"/api/v1/namespaces/n/pods/guest", "/api/v1/namespaces/n/pods/own", "/api/v1/nodes/t-00000",
	}
	if !slices.Equal(api.mu.deleted, want) || api.mu.unconditional {
		t.Errorf("deleted %q, want %q, each with its UID", api.mu.deleted, want)
	}
}

// TestEndAmongRestarts ends runs whose agents restart all the time. No restart may go on
// after the end.
func TestEndAmongRestarts(t *testing.T) {
	dir := profiles(t, "agents: [{name: scripted, per: cluster, instances: 100, restart: 1ms-2ms, reads: [{resource: v1/configmaps}]}]")
	config := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (&scriptedAPI{done: func() {}}).ServeHTTP(w, r) }))
	for range 10 {
		_, err := hollow.Run(t.Context(), hollow.Config{
			Name: "t", Nodes: 1, Agents: []string{"scripted"}, Profiles: dir, Namespace: "default", Start: hollow.StartStorm, Duration: 100 * time.Millisecond, REST: config,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestHomeIsNotUsed names no kubeconfig: a run must not use the one in the home directory.
func TestHomeIsNotUsed(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	cmd := hollow.NewCommand(hollow.Streams{Out: io.Discard, Err: io.Discard})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--nodes=1"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "used only if it is named") {
		t.Errorf("got %v", err)
	}
}
