package list

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMeasureMemoryHasAllListsOpen(t *testing.T) {
	const lists = 5
	api := &benchtest.API{Pods: 3000} // a body larger than a reader's window
	l := newTestLoader(t, api, true)
	l.Plan.Duration = 50 * time.Millisecond
	m, err := measureMemory(t.Context(), l, load.Workload{Name: listMemory, Request: testbed.Request{URI: "/api/v1/pods?resourceVersion=0", Accept: testbed.AcceptJSON}}, lists)
	if err != nil {
		t.Fatal(err)
	}
	if m.Lists != lists || m.BodyBytes < testbed.SlowWindow || m.PeakBytes < m.BeforeBytes {
		t.Errorf("got %+v", m)
	}
	if n := api.CountURIs("/api/v1/pods"); n != 2+lists {
		t.Errorf("%d LISTs, want 2 to warm up and %d", n, lists)
	}
}

func TestMeasureMemoryReportsFailure(t *testing.T) {
	l := newTestLoader(t, &benchtest.API{}, true)
	l.Plan.Warmup = 1
	var calls atomic.Int64
	failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, `{"items":[]}`)
	})
	_, cfg := benchtest.StartTLS(t, failing, true)
	l.Target, _ = testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if _, err := measureMemory(t.Context(), l, load.Workload{Name: listMemory, Request: testbed.Request{URI: "/x", Accept: testbed.AcceptJSON}}, 1); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}
