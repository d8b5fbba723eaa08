package replay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/tool/display"
)

// writeServer takes all writes, and notes them.
type writeServer struct {
	mu      sync.Mutex
	version int
	asked   []string
	bodies  map[string]string
}

// ServeHTTP implements http.Handler.
func (f *writeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	switch {
	case r.Method != http.MethodGet:
		what := r.Method + " " + r.URL.RequestURI()
		f.asked = append(f.asked, what)
		f.bodies[what] = string(body)
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"}}`, 1000+f.version)
	case strings.HasPrefix(r.URL.RequestURI(), "/api/v1/namespaces?labelSelector="):
		fmt.Fprintf(w, `{"items":[{"metadata":{"name":"millrace-replay-1","uid":"u-1","labels":{%[1]q:"true"}}},{"metadata":{"name":"other"}},{"metadata":{"name":"other-labelled","labels":{%[1]q:"true"}}}]}`, writeLabel)
	case strings.HasPrefix(r.URL.Path, "/api/v1/pods"):
		fmt.Fprintf(w, `{"items":[%q]}`, strings.Repeat("x", 5000)) // a large pod
	default:
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"100"},"gitVersion":"v1.99.0"}`)
	}
}

func newWriteServer(t *testing.T) (*writeServer, *server) {
	t.Helper()
	f := &writeServer{bodies: map[string]string{}}
	api := httptest.NewServer(f)
	t.Cleanup(api.Close)
	s, err := newServer(&rest.Config{Host: api.URL, UserAgent: "millrace-replay"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

// TestWrites sends writes of a log to objects of replay's own.
func TestWrites(t *testing.T) {
	const done, user, agent = "ResponseComplete", "system:node:n1", "kubelet/v1"
	log := ""
	for i, e := range []logEvent{
		{verb: "create", uri: "/api/v1/namespaces/shop/pods", code: 201},
		{verb: "patch", uri: "/api/v1/namespaces/shop/pods/web-1/status", code: 200},
		{verb: "update", uri: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1?timeout=10s", code: 200},
		{verb: "update", uri: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1?timeout=10s", code: 200},
		{verb: "delete", uri: "/api/v1/namespaces/shop/pods/web-1", code: 200},
		{verb: "patch", uri: "/api/v1/nodes/n1/status", code: 200},
		{verb: "create", uri: "/api/v1/namespaces/shop/pods/web-1/binding", code: 201},
		{verb: "create", uri: "/apis/example.com/v1/namespaces/shop/widgets", code: 201},
		{verb: "create", uri: "/api/v1/namespaces/shop/configmaps", code: 409},
		{verb: "deletecollection", uri: "/api/v1/namespaces/shop/configmaps", code: 200},
	} {
		e.id, e.stage, e.user, e.agent, e.received, e.staged = strconv.Itoa(i), done, user, agent, 40*i, 40*i+1
		log += e.line()
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	f, s := newWriteServer(t)
	r := Report{Options: Options{Speed: 1, MaxInFlight: 10, Writes: WritesOwnNamespaces}}
	if err := r.replay(context.Background(), []string{file}, nil, []*server{s}, display.NewProgress(io.Discard)); err != nil {
		t.Fatal(err)
	}
	if sums := r.Servers[0].totals(); sums.Requests != 5 || sums.Refused+sums.Unanswered != 0 || r.Servers[0].Clients[0].WriteMillis == nil {
		t.Errorf("%+v", r.Servers[0])
	}
	for _, reason := range []string{leftOutClusterWrite, leftOutSubresource, leftOutResource, leftOutFailedWrite, leftOutWrite} {
		if r.Log.LeftOut[reason] != 1 {
			t.Errorf("%q: %d requests, want one", reason, r.Log.LeftOut[reason])
		}
	}
	counts := map[string]int{}
	for _, what := range f.asked {
		if strings.Contains(what, "shop") || strings.Contains(what, "kube-node-lease") {
			t.Errorf("a namespace of the log is written to: %s", what)
		}
		method, path, _ := strings.Cut(what, " ")
		parts := strings.Split(path, "/")
		counts[method+" "+parts[len(parts)-1]]++
	}
	// Two namespaces with their accounts, and the objects that the log does not create.
	for what, want := range map[string]int{"POST namespaces": 2, "POST serviceaccounts": 2, "POST pods": 2, "POST leases": 1, "PATCH web-1": 1, "PUT n1": 2, "DELETE web-1?gracePeriodSeconds=0": 1} {
		if counts[what] != want {
			t.Errorf("%d times %s, want %d: %v", counts[what], what, want, f.asked)
		}
	}
	for what, body := range f.bodies {
		if strings.HasPrefix(what, "PUT") && !strings.Contains(body, `"resourceVersion":"1`) {
			t.Errorf("%s has no version that was answered: %s", what, body)
		}
		if strings.HasSuffix(what, "/pods") && (len(body) < 4500 || len(body) > 5500) {
			t.Errorf("%s has %d bytes, want about 5000", what, len(body))
		}
	}
}

// TestRemoveWrites removes what carries the label, and nothing else.
func TestRemoveWrites(t *testing.T) {
	f, s := newWriteServer(t)
	n, err := removeWrites(context.Background(), s)
	if n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	const namespace = "/api/v1/namespaces/millrace-replay-1"
	last := -1
	for _, want := range []string{"DELETE " + namespace, "DELETE " + namespace + "/pods?gracePeriodSeconds=0", "PUT " + namespace + "/finalize"} {
		at := slices.Index(f.asked, want)
		if at <= last {
			t.Errorf("%s is request %d, want it after %d", want, at, last)
		}
		last = at
	}
	if body := f.bodies["DELETE "+namespace]; !strings.Contains(body, `"uid":"u-1"`) {
		t.Errorf("the namespace is deleted with %s", body)
	}
	if slices.ContainsFunc(f.asked, func(what string) bool { return strings.Contains(what, "other") }) {
		t.Errorf("asked %q", f.asked)
	}
}

// TestWritesNeedNamedServer checks that the kubeconfig of a user's home gets no writes.
func TestWritesNeedNamedServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = file
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"--delete"}, {"x.log", "--writes=own-namespaces"}} {
		cmd := NewCommand("test")
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "only if it is named") {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
