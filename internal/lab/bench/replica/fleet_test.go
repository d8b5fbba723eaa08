package replica

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

// readEvents opens two clients at an API, writes, and returns the error of the fleet's check.
func readEvents(t *testing.T, api *benchtest.API, writes *writes, n int) (*fleet, error) {
	t.Helper()
	_, config := benchtest.StartTLS(t, api, true)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: config})
	if err != nil {
		t.Fatal(err)
	}
	f, err := openFleet(t.Context(), []*testbed.Target{target}, 2, 10*time.Second)
	defer f.close()
	if err != nil {
		t.Fatal(err)
	}
	writer, err := testbed.NewWriter(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	writer.Change = writes.change
	if err := writer.Emit(t.Context(), 10, 1000); err != nil { // not measured
		t.Fatal(err)
	}
	writes.reset()
	f.measuredSince.Store(time.Now().UnixNano())
	if err := writer.Emit(t.Context(), n, 1000); err != nil {
		t.Fatal(err)
	}
	// Each watch has had one event before.
	faults := max(0, api.Informers.Repeat-1) - max(0, api.Informers.Lose-1)
	if err := f.await(&f.events, int64(2*(n+len(writes.resources)*faults)), 10*time.Second, "events"); err != nil {
		t.Fatal(err)
	}
	f.close()
	return f, f.check(writes)
}

func TestEachEventOnce(t *testing.T) {
	f, err := readEvents(t, &benchtest.API{}, newWrites(benchtest.InitialObjects), 50)
	if err != nil {
		t.Fatal(err)
	}
	spans, resumed, retries := f.totals()
	if len(spans) != 100 || resumed != 0 || retries != 0 || render.Summarize(spans).Max > 10_000 {
		t.Errorf("%d spans, %d watches resumed", len(spans), resumed)
	}
}

// TestResumed watches at a server that ends each watch after two events.
func TestResumed(t *testing.T) {
	api := &benchtest.API{}
	api.Informers.EndAfter = 2
	f, err := readEvents(t, api, newWrites(benchtest.InitialObjects), 60)
	if err != nil {
		t.Fatal(err)
	}
	// Ten informers of each client have seven events each, one of them before.
	if _, resumed, _ := f.totals(); resumed < 2*10*3 {
		t.Errorf("%d watches were resumed", resumed)
	}
}

// TestRefused watches at a server that refuses the first watches by status, and the next ones by an
// event.
func TestRefused(t *testing.T) {
	api := &benchtest.API{}
	api.Informers.Refuse = 2 * 2 * len(watchedResources())
	f, err := readEvents(t, api, newWrites(benchtest.InitialObjects), 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, retries := f.totals(); retries != api.Informers.Refuse {
		t.Errorf("%d watches were retried, want %d", retries, api.Informers.Refuse)
	}
}

func TestFaultyServers(t *testing.T) {
	for name, prepare := range map[string]func(*benchtest.API, *writes){
		"too few objects": func(_ *benchtest.API, w *writes) { w.objects = benchtest.InitialObjects + 1 },
		// The first event of each watch is not measured.
		"lost":     func(api *benchtest.API, _ *writes) { api.Informers.Lose = 2 },
		"repeated": func(api *benchtest.API, _ *writes) { api.Informers.Repeat = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			api, w := &benchtest.API{}, newWrites(benchtest.InitialObjects)
			prepare(api, w)
			if _, err := readEvents(t, api, w, 50); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestFleetFails(t *testing.T) {
	_, config := benchtest.StartTLS(t, &benchtest.API{}, true)
	config.BearerToken = "wrong"
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: config})
	if err != nil {
		t.Fatal(err)
	}
	f, err := openFleet(t.Context(), []*testbed.Target{target}, 1, 10*time.Second)
	defer f.close()
	if err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, err := openFleet(ended, []*testbed.Target{target}, 1, time.Millisecond)
	defer late.close()
	if err == nil {
		t.Error("no error after the end of the context")
	}
}

func TestCounts(t *testing.T) {
	got := parseCounts(`# HELP apiserver_request_total of requests
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 7
apiserver_longrunning_requests{component="apiserver",group="apps",resource="deployments",scope="cluster",verb="WATCH"} 5
apiserver_longrunning_requests{component="apiserver",group="",resource="leases",scope="cluster",verb="WATCH"} 100
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",subresource="exec",verb="CONNECT"} 100
apiserver_request_total{code="200",resource="pods",verb="LIST"} 2
apiserver_request_total{code="200",resource="pods",verb="PATCH"} 100
apiserver_request_total{code="201",resource="subjectaccessreviews",verb="POST"} 3
millrace_read_passed_on_total{reason="unproven"} 4
millrace_replica_passed_on_total{reason="user"} 1
process_cpu_seconds_total 12
`)
	if want := (counts{watches: 12, requests: 5, passedOn: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func sampleReport() *report {
	used := func(seconds float64) cost {
		return cost{CPUSeconds: seconds, SentBytes: int64(seconds * 20e6), RSSBytes: int64(300e6 + seconds*10e6), PeakBytes: int64(400e6 + seconds*10e6)}
	}
	r := &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Upstream: "kube-apiserver v1.37.2",
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    plan{Objects: 50, Rate: 50, Duration: 20 * time.Second, Warmup: 2 * time.Second},
	}
	for _, setup := range setups() {
		for _, informers := range []int{0, 10, 200, 2000} {
			if informers == 10 && setup != setupDirect {
				continue
			}
			res := result{Setup: setup, Informers: informers, Clients: informers / 10, Writes: 1000, WritesPerSec: 49.5, Events: 100 * informers}
			res.costs = costs{Upstream: used(3 + float64(informers)/200), Etcd: used(1), ClientCPUSeconds: 2}
			if strings.HasPrefix(setup, "replica") {
				res.Upstream, res.Tiers = used(3), []cost{used(1 + float64(informers)/1000)}
			}
			if informers > 0 {
				res.Watches, res.Millis = informers, render.Latencies{P50: 5, P90: 7, P99: 9 + float64(informers)/100, Max: 40}
				res.Opening = &openCost{Seconds: 1.5, Writes: 75, Requests: 12, PassedOn: 1, costs: res.costs}
			}
			r.Results = append(r.Results, res)
		}
	}
	last := &r.Results[len(r.Results)-1]
	r.Results[2].Resumed, *last = 3, result{Setup: last.Setup, Informers: last.Informers, Error: "it broke"}
	return r
}
