package hollow_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// patience bounds waits that take a second on an idle machine.
const patience = 60 * time.Second

// step is one request of an agent that a test expects, and the answer to it.
type step struct {
	query  string // with sorted parameters; timeoutSeconds is left out
	status int    // 0: 200
	body   string
	hold   bool // the answer stays open
	later  bool // with Retry-After
}

// scriptedAPI serves one hollow node, and an agent whose requests are a script.
type scriptedAPI struct {
	steps []step
	done  context.CancelFunc // is called at the last step

	mu struct {
		sync.Mutex
		queries []string
	}
}

func (a *scriptedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case r.Header.Get("User-Agent") == "scripted":
		a.answer(w, r)
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	case r.URL.Query().Get("watch") == "true":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case strings.Contains(path, "/leases") && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(path, "/leases"):
		writeProtobuf(w, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}})
	}
}

// writeProtobuf writes an object in Kubernetes' envelope.
func writeProtobuf(w io.Writer, object interface{ Marshal() ([]byte, error) }) {
	raw, _ := object.Marshal()
	body, _ := (&runtime.Unknown{Raw: raw}).Marshal()
	_, _ = w.Write(append([]byte("k8s\x00"), body...))
}

// answer answers the next step. A request after the last step is only noted.
func (a *scriptedAPI) answer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	query.Del("timeoutSeconds")
	a.mu.Lock()
	n := len(a.mu.queries)
	a.mu.queries = append(a.mu.queries, query.Encode())
	a.mu.Unlock()
	if n >= len(a.steps) {
		return
	}
	s := a.steps[n]
	if s.later {
		w.Header().Set("Retry-After", "1")
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	fmt.Fprint(w, s.body)
	_ = http.NewResponseController(w).Flush()
	if n == len(a.steps)-1 {
		a.done()
	}
	if s.hold {
		<-r.Context().Done()
	}
}

// profiles makes a directory with the profiles of a kubelet and of an agent "scripted".
func profiles(t *testing.T, scripted string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"kubelet": "agents: [{name: kubelet, reads: [{resource: v1/pods, ownPods: true, mode: watch-list}]}]", "scripted": scripted,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serve serves an API until the test ends.
func serve(t *testing.T, api http.Handler) *rest.Config {
	t.Helper()
	web := httptest.NewUnstartedServer(api)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	return &rest.Config{Host: web.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

// run runs a node and an agent with one read until the script is over.
func run(t *testing.T, read string, steps []step) (*hollow.Report, []string) {
	t.Helper()
	dir := profiles(t, "agents: [{name: scripted, per: cluster, backoff: {first: 1ms, longest: 2ms}, reads: [{resource: v1/configmaps, "+read+"}]}]")
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	api := &scriptedAPI{steps: steps, done: done}
	report, err := hollow.Run(ctx, hollow.Config{
		Name: "t", Nodes: 1, Agents: []string{"scripted"}, Profiles: dir, Namespace: "default", Start: hollow.StartStorm,
		REST: serve(t, api),
	})
	if err != nil {
		t.Fatal(err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	return report, api.mu.queries
}

const (
	resumeAt = "allowWatchBookmarks=true&resourceVersion=%s&watch=true"
	initial  = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
	cached   = "resourceVersion=0"
	gone     = `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}` + "\n"
)

func list(revision, token string) string {
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[]}`, revision, token)
}

func event(kind, revision, annotations string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","metadata":{"annotations":{%s},"resourceVersion":%q}}}`+"\n", kind, annotations, revision)
}

// initialAt is a watch with all objects at a revision or newer.
func initialAt(revision string) string {
	return strings.Replace(initial, "resourceVersionMatch", "resourceVersion="+revision+"&resourceVersionMatch", 1)
}

func resume(revision string) string { return fmt.Sprintf(resumeAt, revision) }

// Each read sends the requests that its profile describes.
func TestReads(t *testing.T) {
	const end = `"k8s.io/initial-events-end":"true"`
	for name, c := range map[string]struct {
		read    string
		steps   []step
		relists int64
		errors  int64
	}{
		"a watch goes on from its last bookmark, and after 410 lists from there, without pages": {read: "limit: 2", relists: 1, errors: 1, steps: []step{
			{query: "limit=2&" + cached, body: list("5", "more")}, {query: "continue=more&limit=2", body: list("5", "")},
			{query: resume("5"), body: event("ADDED", "6", "") + event("BOOKMARK", "9", "")},
			{query: resume("9"), body: gone}, {query: "resourceVersion=9", body: list("20", "")}, {query: resume("20"), hold: true},
		}},
		"a list that the server no longer has is asked for at any version": {read: "limit: 2", relists: 2, errors: 2, steps: []step{
			{query: "limit=2&" + cached, body: list("5", "")}, {query: resume("5"), body: gone}, {query: "resourceVersion=5", status: http.StatusGone},
			{query: "limit=2", body: list("20", "")}, {query: resume("20"), hold: true},
		}},
		"a watch that is refused lists anew": {read: "mode: watch-list", relists: 1, errors: 1, steps: []step{
			{query: initial, body: event("BOOKMARK", "7", end)}, {query: resume("7"), status: http.StatusForbidden}, {query: initialAt("7"), body: event("BOOKMARK", "9", end)}, {query: resume("9"), hold: true},
		}},
		"a watch that is put off goes on": {read: "mode: watch-list", errors: 2, steps: []step{
			{query: initial, body: event("BOOKMARK", "7", end)}, {query: resume("7"), status: http.StatusTooManyRequests}, {query: resume("7"), status: http.StatusTooManyRequests}, {query: resume("7"), hold: true},
		}},
		"a watch-list goes on from where its initial events end": {read: "mode: watch-list", steps: []step{
			{query: initial, body: event("ADDED", "3", "") + event("BOOKMARK", "7", end)}, {query: resume("7"), hold: true},
		}},
		"a watch-list that breaks among its initial events begins anew": {read: "mode: watch-list", relists: 1, steps: []step{
			{query: initial, body: event("ADDED", "3", "")}, {query: initial, hold: true},
		}},
		"a server without watch-lists gets a list": {read: "mode: watch-list", relists: 1, errors: 1, steps: []step{
			{query: initial, status: http.StatusUnprocessableEntity}, {query: cached, body: list("5", "")}, {query: resume("5"), hold: true},
		}},
		"no resource version, no bookmarks, no resuming": {read: "resourceVersion: unset, noBookmarks: true, noResume: true", relists: 1, steps: []step{
			{query: "", body: list("5", "")}, {query: "resourceVersion=5&watch=true"}, {query: "", body: list("8", "")}, {query: "resourceVersion=8&watch=true", hold: true},
		}},
		"a loop of lists beside a watch": {read: "relist: 20ms", relists: 2, steps: []step{
			{query: cached, body: list("5", "")}, {query: resume("5"), hold: true}, {query: cached, body: list("5", "")}, {query: resume("5"), hold: true}, {query: cached, body: list("5", "")},
		}},
		"polls": {read: "mode: poll, every: 5ms, labels: a=b", steps: []step{
			{query: "labelSelector=a%3Db&" + cached, body: list("5", "")}, {query: "labelSelector=a%3Db&" + cached, body: list("5", "")}, {query: "labelSelector=a%3Db&" + cached, body: list("5", "")},
		}},
		"a refused list is repeated": {read: "mode: list", errors: 1, steps: []step{
			{query: cached, status: http.StatusTooManyRequests}, {query: cached, body: list("5", "")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			report, queries := run(t, c.read, c.steps)
			var want []string
			for _, s := range c.steps {
				want = append(want, s.query)
			}
			if got := queries[:min(len(want), len(queries))]; !slices.Equal(got, want) {
				t.Errorf("requests\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			var relists, failures int64
			for _, row := range report.Rows {
				if row.Agent == "scripted" {
					relists, failures = relists+row.Relists, failures+row.Errors
				}
			}
			if relists < c.relists || failures < c.errors {
				t.Errorf("%d relists, %d errors", relists, failures)
			}
		})
	}
}
