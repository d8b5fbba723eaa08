package bench

import (
	"strings"
	"testing"
	"time"
)

func sampleWatchReport() *watchReport {
	res := func(name string, event, p99, bytes float64) watchResult {
		return watchResult{Workload: name, Watchers: 1000, Connections: 20, Writes: 300, WritesPerSec: 20.01, Events: 300_000, OpenSeconds: 0.5,
			BytesPerEvent: bytes, Millis: latencies{P50: p99 / 4, P99: p99}, ClientMicros: 9.5,
			Server: &watchCost{OpenMicros: event * 40, CPUSeconds: event * 0.3, WriteMicros: event * 1000, EventMicros: event, NetMicros: event - 2, AloneMicros: 2000,
				RSSBytes: 281e6, PeakBytes: 332e6}}
	}
	nodes := res("nodes-1000", 6000, 9, 4868)
	nodes.Server = nil
	informers := informersResult{Workload: "watchlist-16", Informers: 16, Slow: 4, Objects: 400, BodyBytes: 400e6, IdleBytes: 567e6, PeakBytes: 848e6,
		CPUMillis: 8, ClientMillis: 0.85, Seconds: 11.8, MedianSeconds: 9.15}
	return &watchReport{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    watchPlan{Duration: 15 * time.Second, Warmup: time.Second, Rest: 12 * time.Second},
		Data:    []fillConfig{{Nodes: 5000, Pods: 5000, PodSize: "4KB", Namespaces: 1}},
		Servers: []watchServer{
			{Name: "millrace", Version: "v1.36.3", StartMillis: 3100, Informers: []informersResult{informers},
				Results: []watchResult{res("all-h2-20", 15, 40, 2436), res("gzip", 10, 50, 609), nodes}},
			{Name: "kubernetes", Version: "v1.36.3", Informers: []informersResult{{Workload: "watchlist-16", Error: "too slow"}},
				Results: []watchResult{res("all-h2-20", 30, 80, 2436), {Workload: "gzip", Error: "it broke"}}},
		},
		Floor:          []watchResult{res("floor-h2-20", 10, 20, 2436), res("floor-h1", 5, 10, 2436)},
		FloorInformers: []informersResult{informers},
	}
}

func TestWatchRenderGolden(t *testing.T) {
	r := sampleWatchReport()
	r.noteFailures()
	alone := sampleWatchReport()
	alone.Servers = alone.Servers[:1]
	checkGolden(t, map[string]string{
		"watch-table": r.text("table"), "watch-wide": r.text("wide"), "watch-markdown": r.text("markdown"), "watch-alone": alone.text("table"),
	})
}

func TestWatchReportTellsFailures(t *testing.T) {
	failed := strings.Join(sampleWatchReport().failed(), "\n")
	for _, want := range []string{"failed on kubernetes: gzip: it broke", "failed on kubernetes: watchlist-16: too slow"} {
		if !strings.Contains(failed, want) {
			t.Errorf("%q is missing in %q", want, failed)
		}
	}
}

func TestWatchCostIsShared(t *testing.T) {
	cost := newWatchCost(3*time.Second, 2000, watchResult{Writes: 300, Events: 300_000})
	if cost.EventMicros != 10 || cost.WriteMicros != 10_000 || cost.NetMicros != 8 || cost.CPUSeconds != 3 {
		t.Errorf("got %+v", cost)
	}
	if cost := newWatchCost(time.Second, 1e9, watchResult{Writes: 1, Events: 1}); cost.NetMicros != 0 {
		t.Errorf("got %+v", cost)
	}
}
