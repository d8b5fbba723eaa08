package list

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func sampleReport() *report {
	list := func(cpu, rate float64) load.Result {
		return load.Result{Workload: "pods-json", Concurrency: 5, Items: 10000, Requests: 20, Bytes: 39_800_000, RequestsPerSec: rate,
			ColdMillis: 1234.5, Millis: render.Latencies{P50: 12.345, P90: 99.96, P99: 1029, Max: 2000}, ClientCPUMillis: 8.125,
			Server: &load.ServerCost{CPUMillis: cpu, RSSBytes: 281_000_000, PeakBytes: 9_995_000_000}}
	}
	get := load.Result{Workload: "pod-get", Concurrency: 20, Items: 1, Requests: 9999, Bytes: 4096, RequestsPerSec: 12345, Server: &load.ServerCost{CPUMillis: 0.1}}
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Protocol: "HTTP/2", ResourceVersions: []string{"0", "unset"},
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    load.Plan{Duration: 5 * time.Second, Warmup: 2},
		Data:    &testbed.FillConfig{Nodes: 1000, Pods: 10000, PodSize: "4KB", Namespaces: 1},
		Servers: []serverReport{
			{Name: "millrace", Version: "v1.36.3", StartMillis: 3100, IdleBytes: 281e6, Results: []load.Result{list(47, 20.5), get},
				Memory: &memoryResult{Lists: 32, BodyBytes: 39_800_000, BeforeBytes: 3e8, PeakBytes: 332e6, PerListBytes: 1e6},
				RSS: &rssResult{Rest: 30 * time.Second, Lists: 10, Encodings: make([]string, 4), StartPeakBytes: 310e6, IdleBytes: 150e6,
					PeakBytes: 360e6, AfterBytes: 180e6},
				SlowReaders: &slowReadersResult{Clients: 64, Stall: 30 * time.Second, Rest: 30 * time.Second, BodyBytes: 400e6, IdleBytes: 150e6, BeforeBytes: 600e6, PeakBytes: 700e6,
					Fast: readerOutcomes{Complete: 32, Seconds: 12.25}, Slow: readerOutcomes{Complete: 29, Failed: 2, Refused: 1, Seconds: 31}}},
			{Name: "kubernetes", Version: "v1.36.3", Results: []load.Result{list(696, 1.25), {Workload: "pod-get", Error: "no"}}},
		},
		Floor: []load.Result{list(40, 22)},
	}
}

func TestRenderGolden(t *testing.T) {
	alone := sampleReport()
	alone.Servers, alone.Floor, alone.Data = alone.Servers[:1], nil, nil
	alone.Servers[0].Name, alone.Servers[0].Memory, alone.Servers[0].RSS, alone.Servers[0].SlowReaders = "server", nil, nil, nil
	alone.Servers[0].Results[0].Server = nil
	compared := sampleReport()
	compared.addNotes()
	benchtest.CheckGolden(t, map[string]string{
		"table": compared.text("table"), "wide": compared.text("wide"), "markdown": compared.text("markdown"), "alone": alone.text("table"),
	})
}

func TestWriteJSONHasEverything(t *testing.T) {
	var out strings.Builder
	if err := sampleReport().Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil {
		t.Fatal(err)
	}
	if got := back.Servers[1].Results[0]; got.Server.CPUMillis != 696 || got.Millis.P99 != 1029 || got.ColdMillis != 1234.5 {
		t.Errorf("got %+v", got)
	}
	if back.FailureCount() != 1 || back.Machine.Cores != 2 || back.Servers[0].Version != "v1.36.3" {
		t.Errorf("got %+v", back)
	}
}

func TestNotes(t *testing.T) {
	r := sampleReport()
	r.Servers[1].Results[0].Items = 9999
	r.Servers[1].Memory = &memoryResult{Error: "broken"}
	r.Servers[1].RSS, r.Servers[1].SlowReaders = &rssResult{Error: "no pods"}, &slowReadersResult{Error: "no secrets"}
	r.Servers[1].Results[0].AcceptEncoding = "zstd"
	r.Servers[0].SlowReaders.FirstFailure = "reset"
	r.addNotes()
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"pods-json: millrace sent 10000 items, kubernetes 9999", "failed on kubernetes: pod-get: no", "list-memory: broken",
		"pods-json: kubernetes does not send zstd", "list-rss: no pods", "list-stalled: no secrets", "millrace: list-stalled: first incomplete LIST: reset"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is missing in %q", want, notes)
		}
	}
}

// TestReportWithoutServers prints saved reports that have no servers.
func TestReportWithoutServers(t *testing.T) {
	for _, r := range []*report{{Cold: true}, {Cold: true, ColdReaders: 4}, {Floor: sampleReport().Floor}} {
		for _, format := range render.Formats() {
			var out strings.Builder
			if err := r.Write(&out, format); err != nil || out.Len() == 0 {
				t.Errorf("cold %t, %d readers, as %s: %q, %v", r.Cold, r.ColdReaders, format, out.String(), err)
			}
		}
	}
}

// TestColdTableWithoutResult checks that a workload which failed on the second server has dashes
// there, not zeros.
func TestColdTableWithoutResult(t *testing.T) {
	r := sampleReport()
	r.Cold = true
	if text := r.text("markdown"); !strings.Contains(text, "| - | - | - | - | - |\n") {
		t.Errorf("got %s", text)
	}
}
