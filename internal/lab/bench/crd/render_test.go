package crd

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func sampleReport() *report {
	state := func(rss int64, goroutines int) *State {
		return &State{RSSBytes: rss, Goroutines: goroutines, Idle: true}
	}
	full := serverReport{
		Name: "millrace", Version: "v1.36.3", StartMillis: 3100,
		AfterStart: state(300e6, 800), AfterInstall: state(400e6, 850), AfterRestart: state(350e6, 840), AfterOpenAPI: state(500e6, 841), AfterRequests: state(520e6, 900), AfterDelete: state(310e6, 801),
		Install: &installCost{WrittenSeconds: 1.5, EstablishedSeconds: 4, ListedSeconds: 5, AnsweredSeconds: 5.25, CPUSeconds: 6, IdleCPUSeconds: 7, PeakBytes: 450e6},
		Restart: &restartCost{ReadySeconds: 3, ListedSeconds: 3.5}, ObjectsPerSecond: 800,
		OpenAPI: &openAPICost{V2: readCost{Seconds: 2, CPUSeconds: 2.5, Bytes: 69e6}, V3: readCost{Seconds: 1, CPUSeconds: 0.5, Bytes: 80e6}, V3Documents: 421, RSSBytes: 600e6},
		Requests: []requestResult{
			{Name: "first create of a kind", Kinds: 100, Rounds: 1, Millis: render.Latencies{P50: 12, P90: 20, P99: 90}, CPUMillis: 14, Refused: 3},
			{Name: "create", Kinds: 100, Rounds: 10, Millis: render.Latencies{P50: 3, P90: 4, P99: 9}, CPUMillis: 2.5},
		},
		Delete: &deleteCost{Seconds: 12, IdleCPUSeconds: 8},
	}
	partly := serverReport{Name: "kubernetes", Version: "v1.36.3", StartMillis: 4200, AfterStart: state(330e6, 2500), Error: "install definitions: it broke",
		Install: &installCost{WrittenSeconds: 3}, AfterInstall: &State{RSSBytes: 800e6, Goroutines: 9000}}
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    Plan{Workers: 16, Samples: 100, Rest: 30 * time.Second}, ExternalEtcd: true,
		Data:    Data{CRDs: 2000, Groups: 400, Properties: 100, Objects: 1000},
		Servers: []serverReport{full, partly},
	}
}

func TestRenderGolden(t *testing.T) {
	crds, alone := sampleReport(), sampleReport()
	crds.addNotes()
	alone.Servers = alone.Servers[:1]
	benchtest.CheckGolden(t, map[string]string{
		"table": crds.text("table"), "wide": crds.text("wide"), "markdown": crds.text("markdown"), "alone": alone.text("table"),
	})
}

func TestNotes(t *testing.T) {
	r := sampleReport()
	r.addNotes()
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"failed on kubernetes: install definitions: it broke", "kubernetes: memory after install was read while the server was busy (not idle within 10m0s)"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is missing in %q", want, notes)
		}
	}
	if n := r.FailureCount(); n != 1 {
		t.Errorf("%d failures", n)
	}
}

// TestPlotOfMemory checks that the plot has a bar for each measured measuring point, on an axis that
// begins at 0.
func TestPlotOfMemory(t *testing.T) {
	r := sampleReport()
	svg := benchtest.WellFormedSVG(t, r.plot())
	for _, want := range []string{"2000 definitions of 100 properties", "after delete", ">800 MB<", ">310 MB<", ">0 B<", ">100 MB<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("plot lacks %s", want)
		}
	}
	if bars := strings.Count(svg, `height="14" rx`); bars != 8 {
		t.Errorf("plot has %d bars, want 6 and 2", bars)
	}
	r.Servers = nil
	benchtest.WellFormedSVG(t, r.plot())
}
