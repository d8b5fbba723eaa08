package bench

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestLoadUsesOneConnectionPerClient(t *testing.T) {
	api := &fakeAPI{nodes: 4}
	l := newTestLoader(t, api, true)
	l.plan.Concurrency = 6
	if _, _, err := l.run(t.Context(), workload{name: "n", request: request{uri: "/api/v1/nodes", accept: acceptJSON}, concurrency: 1}); err != nil {
		t.Fatal(err)
	}
	if n := api.connections(); n != 6 {
		t.Errorf("%d connections, want 6", n)
	}
}

func TestLoadByDurationSendsAtLeastOneEach(t *testing.T) {
	l := newTestLoader(t, &fakeAPI{nodes: 4}, true)
	l.plan.Requests, l.plan.Duration = 0, 1
	res, _, err := l.run(t.Context(), workload{name: "n", request: request{uri: "/api/v1/nodes", accept: acceptJSON}, concurrency: 4})
	if err != nil || res.Requests < 4 {
		t.Errorf("%d requests, %v", res.Requests, err)
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
		w       workload
		message string
	}{
		{"status", &fakeAPI{}, workload{request: request{uri: "/nowhere"}}, "404"},
		{"no list", &fakeAPI{}, workload{request: request{uri: "/version"}}, `no "items"`},
		{"too few items", &fakeAPI{nodes: 2}, workload{request: request{uri: "/api/v1/nodes"}, minItems: 3}, "2 items, expected at least 3"},
		{"shrunk", shrinking, workload{request: request{uri: "/x"}}, "a response of 12 bytes"},
	} {
		c.w.name, c.w.accept, c.w.concurrency = "w", acceptJSON, 1
		_, _, err := newTestLoader(t, c.api, true).run(t.Context(), c.w)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.message)
		}
	}
}

func newTestLoader(t *testing.T, api http.Handler, http2 bool) *loader {
	t.Helper()
	_, cfg := startFake(t, api, http2)
	target, err := newTarget(targetConfig{rest: cfg, http1: !http2})
	if err != nil {
		t.Fatal(err)
	}
	return &loader{
		target: target, meter: newMeter(os.Getpid()), captures: t.TempDir(), log: newProgress(io.Discard),
		plan: plan{Requests: 7, Warmup: 2, Timeout: time.Minute},
	}
}
