package provision

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/test/support/benchtest"
)

func sampleReport() *report {
	steps := func(factor float64) map[string]quantiles {
		all := map[string]quantiles{}
		for i, s := range steps() {
			base := factor * float64(i+1) * 100
			all[s.name] = quantiles{1000, base, 2 * base, 3 * base, 4 * base}
		}
		return all
	}
	objectives := []objective{{stepWatch, 99, 2 * time.Second}}
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LoadAverage: "0.40",
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    plan{Name: "provision", Nodes: 100, Agents: []string{"network"}, Watchers: 20, Pods: 1000, PodsOf: podsOfDeployments, PodsPerDeployment: 50, ComponentQPS: 5000},
		Results: []result{
			{
				Path: testbed.ReadPathMillrace, Server: "v1.37.2", Seconds: 12.5, Steps: steps(1),
				Costs:            []cost{{partEtcd, 1.5, 90e6, 3e6}, {partServer, 7.25, 400e6, 120e6}, {testbed.Scheduler, 3, 200e6, 9e6}},
				ClientCPUSeconds: 4, OtherCPUSeconds: 0.5, Requests: 9000, Deliveries: 80000, Writes: 4000, WritesLowered: 40,
				Verdicts: []verdict{{objectives[0], 1500, true}},
			},
			{
				Path: testbed.ReadPathStock, Server: "v1.37.2", Seconds: 25, Steps: steps(2),
				Costs: []cost{{partServer, 14.5, 800e6, 240e6}}, Requests: 9000, Relists: 2, Errors: 7, PeaksSinceStart: true, DeliveriesLeftOut: 5,
				ErrorKinds: []hollow.ErrorKind{{Message: "429 too many", Count: 7}}, Verdicts: []verdict{{objectives[0], 3000, false}},
			},
			{Path: pathReplicaAPI, Upstream: testbed.ReadPathStock, Error: "of 1000 pods 10 were created: not done within 1m"},
		},
	}
}

func TestRenderGolden(t *testing.T) {
	r := sampleReport()
	alone := sampleReport()
	alone.Results = alone.Results[:1]
	alone.Plan.PodsOf, alone.Plan.Rate, alone.Plan.Agents = podsOfPods, 20, nil
	turns := sampleReport()
	turns.Plan.Turns = 3
	for _, factor := range []float64{5, 3} {
		further := sampleReport().Results[0]
		further.Seconds *= factor
		turns.Results = append(turns.Results, further)
	}
	benchtest.CheckGolden(t, map[string]string{
		"table": r.text("table"), "markdown": r.text("markdown"), "alone": alone.text("table"), "turns": turns.text("table"),
	})
	benchtest.WellFormedSVG(t, r.plot())
}

// TestFrom prints a saved report, with its page, and ends with an error for a missed
// objective.
func TestFrom(t *testing.T) {
	dir := t.TempDir()
	saved, page := filepath.Join(dir, "report.json"), filepath.Join(dir, "page.html")
	text, err := json.Marshal(sampleReport())
	if err == nil {
		err = os.WriteFile(saved, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := command(t, "--from="+saved, "--report="+page, "-o=markdown")
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver: watch p99<2s") || strings.Contains(err.Error(), "millrace serve") {
		t.Errorf("got %v", err)
	}
	if want := sampleReport().text("markdown"); out != want {
		t.Errorf("got\n%s", out)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`aria-label="millrace serve, p50: 100 ms"`, "missed ✗", "replica of kube-apiserver", "12.5 s", "</html>"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, loads := range []string{"<script", "src=", "http://", "https://", "@import"} {
		if strings.Contains(string(html), loads) {
			t.Errorf("the page has %q", loads)
		}
	}
}
