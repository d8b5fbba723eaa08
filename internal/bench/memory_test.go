package bench

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMeasureMemoryHasAllListsOpen(t *testing.T) {
	const lists = 5
	api := &fakeAPI{pods: 3000} // more than a reader's window
	l := newTestLoader(t, api, true)
	l.plan.Duration = 50 * time.Millisecond
	m, err := measureMemory(t.Context(), l, workload{name: listMemory, request: request{uri: "/api/v1/pods?resourceVersion=0", accept: acceptJSON}}, lists)
	if err != nil {
		t.Fatal(err)
	}
	if m.Lists != lists || m.BodyBytes < slowWindow || m.PeakBytes < m.BeforeBytes {
		t.Errorf("got %+v", m)
	}
	if n := api.count("/api/v1/pods"); n != 2+lists {
		t.Errorf("%d LISTs, want 2 to warm up and %d", n, lists)
	}
}

func TestMeasureMemoryReportsFailure(t *testing.T) {
	l := newTestLoader(t, &fakeAPI{}, true)
	l.plan.Warmup = 1
	var calls atomic.Int64
	failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, `{"items":[]}`)
	})
	_, cfg := startFake(t, failing, true)
	l.target, _ = newTarget(targetConfig{rest: cfg})
	if _, err := measureMemory(t.Context(), l, workload{name: listMemory, request: request{uri: "/x", accept: acceptJSON}}, 1); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}
