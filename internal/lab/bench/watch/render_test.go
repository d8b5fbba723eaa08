package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func sampleReport() *report {
	res := func(name string, event, p99, bytes float64) result {
		return result{Workload: name, Watchers: 1000, Connections: 20, Writes: 300, WritesPerSec: 20.01, Events: 300_000, OpenSeconds: 0.5,
			BytesPerEvent: bytes, Millis: render.Latencies{P50: p99 / 4, P99: p99}, ClientCPUMicros: 9.5,
			Server: &serverCost{OpenMicros: event * 40, CPUSeconds: event * 0.3, WriteMicros: event * 1000, EventMicros: event, NetMicros: event - 2, AloneMicros: 2000,
				RSSBytes: 281e6, PeakBytes: 332e6}}
	}
	nodes := res("nodes-1000", 6000, 9, 4868)
	nodes.Server = nil
	informers := informersResult{Workload: "watchlist-16", Informers: 16, Slow: 4, Objects: 400, BodyBytes: 400e6, IdleBytes: 567e6, PeakBytes: 848e6,
		CPUMillisPerMB: 8, ClientCPUMillisPerMB: 0.85, Seconds: 11.8, MedianSeconds: 9.15}
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    plan{Duration: 15 * time.Second, Warmup: time.Second, Rest: 12 * time.Second},
		Data:    []testbed.FillConfig{{Nodes: 5000, Pods: 5000, PodSize: "4KB", Namespaces: 1}},
		Servers: []serverReport{
			{Name: "millrace", Version: "v1.36.3", StartMillis: 3100, Informers: []informersResult{informers},
				Results: []result{res("all-h2-20", 15, 40, 2436), res("gzip", 10, 50, 609), nodes}},
			{Name: "kubernetes", Version: "v1.36.3", Informers: []informersResult{{Workload: "watchlist-16", Error: "too slow"}},
				Results: []result{res("all-h2-20", 30, 80, 2436), {Workload: "gzip", Error: "it broke"}}},
		},
		Floor:          []result{res("floor-h2-20", 10, 20, 2436), res("floor-h1", 5, 10, 2436)},
		FloorInformers: []informersResult{informers},
	}
}

func TestRenderGolden(t *testing.T) {
	r := sampleReport()
	r.addFailureNotes()
	alone := sampleReport()
	alone.Servers = alone.Servers[:1]
	benchtest.CheckGolden(t, map[string]string{
		"table": r.text("table"), "wide": r.text("wide"), "markdown": r.text("markdown"), "alone": alone.text("table"),
	})
}

func TestFailedNotes(t *testing.T) {
	failed := strings.Join(sampleReport().failureNotes(), "\n")
	for _, want := range []string{"failed on kubernetes: gzip: it broke", "failed on kubernetes: watchlist-16: too slow"} {
		if !strings.Contains(failed, want) {
			t.Errorf("%q is missing in %q", want, failed)
		}
	}
}

func TestNewServerCost(t *testing.T) {
	cost := newServerCost(3*time.Second, 2000, result{Writes: 300, Events: 300_000})
	if cost.EventMicros != 10 || cost.WriteMicros != 10_000 || cost.NetMicros != 8 || cost.CPUSeconds != 3 {
		t.Errorf("got %+v", cost)
	}
	if cost := newServerCost(time.Second, 1e9, result{Writes: 1, Events: 1}); cost.NetMicros != 0 {
		t.Errorf("got %+v", cost)
	}
}
