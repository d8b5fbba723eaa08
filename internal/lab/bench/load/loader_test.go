package load

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestLoadUsesOneConnectionPerClient(t *testing.T) {
	api := &benchtest.API{Nodes: 4}
	l := newTestLoader(t, api, true)
	l.Plan.Concurrency = 6
	if _, _, err := l.Run(t.Context(), Workload{Name: "n", Request: testbed.Request{URI: "/api/v1/nodes", Accept: testbed.AcceptJSON}, Concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if n := api.Connections(); n != 6 {
		t.Errorf("%d connections, want 6", n)
	}
}

func TestLoadByDurationSendsAtLeastOneEach(t *testing.T) {
	l := newTestLoader(t, &benchtest.API{Nodes: 4}, true)
	l.Plan.Requests, l.Plan.Duration = 0, 1
	res, _, err := l.Run(t.Context(), Workload{Name: "n", Request: testbed.Request{URI: "/api/v1/nodes", Accept: testbed.AcceptJSON}, Concurrency: 4})
	if err != nil || res.Requests < 4 {
		t.Errorf("%d requests, %v", res.Requests, err)
	}
}

func TestLoadPacesClients(t *testing.T) {
	l := newTestLoader(t, &benchtest.API{Nodes: 4}, true)
	l.Plan.Every, l.Plan.Requests = 20*time.Millisecond, 5
	w := Workload{Name: "n", Request: testbed.Request{URI: "/api/v1/nodes", Accept: testbed.AcceptJSON}, Concurrency: 1}
	res, _, err := l.Run(t.Context(), w)
	if err != nil || res.Requests != 5 || res.RequestsPerSec > 5/(4*l.Plan.Every.Seconds()) {
		t.Errorf("got %+v, %v: 5 requests take 80 ms at least", res, err)
	}
}

func TestLoadFails(t *testing.T) {
	var calls atomic.Int64
	shrinking := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		if calls.Add(1) > 3 {
			io.WriteString(w, `{"items":[]}`)
			return
		}
		io.WriteString(w, `{"items":[{"name":"a long enough name to be missed"}]}`)
	})
	for _, c := range []struct {
		name    string
		api     http.Handler
		w       Workload
		message string
	}{
		{"status", &benchtest.API{}, Workload{Request: testbed.Request{URI: "/nowhere"}}, "404"},
		{"no list", &benchtest.API{}, Workload{Request: testbed.Request{URI: "/version"}}, `no "items"`},
		{"too few items", &benchtest.API{Nodes: 2}, Workload{Request: testbed.Request{URI: "/api/v1/nodes"}, MinItems: 3}, "2 items, expected at least 3"},
		{"shrunk", shrinking, Workload{Request: testbed.Request{URI: "/x"}}, "a response of 12 bytes"},
	} {
		c.w.Name, c.w.Accept, c.w.Concurrency = "w", testbed.AcceptJSON, 1
		_, _, err := newTestLoader(t, c.api, true).Run(t.Context(), c.w)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.message)
		}
	}
}

// A server that has just started answers a LIST of custom objects with a 429.
func TestLoadTriesAgain(t *testing.T) {
	var refused atomic.Bool
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" && refused.CompareAndSwap(false, true) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "storage is (re)initializing", http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, `{"items":[{}]}`)
	})
	w := Workload{Name: "w", Request: testbed.Request{URI: "/x", Accept: testbed.AcceptJSON}, Concurrency: 1, MinItems: 1}
	if res, _, err := newTestLoader(t, api, true).Run(t.Context(), w); err != nil || res.Items != 1 || res.Refused != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
}

func newTestLoader(t *testing.T, api http.Handler, http2 bool) *Loader {
	t.Helper()
	_, cfg := benchtest.StartTLS(t, api, http2)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg, HTTP1: !http2})
	if err != nil {
		t.Fatal(err)
	}
	return &Loader{
		Target: target, Meter: testbed.NewMeter(os.Getpid()), CaptureDir: t.TempDir(), Progress: testbed.NewProgress(io.Discard),
		Plan: Plan{Requests: 7, Warmup: 2, Timeout: time.Minute},
	}
}
