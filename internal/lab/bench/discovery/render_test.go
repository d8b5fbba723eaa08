package discovery

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/crd"
	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func sampleReport() *report {
	res := func(name string, cpu float64) load.Result {
		return load.Result{Workload: name, Concurrency: 1, Requests: 50, Bytes: 1_500_000, ColdMillis: 100, ColdCPUMillis: 90,
			Millis: render.Latencies{P50: 10, P99: 20}, ClientCPUMillis: 1, Server: &load.ServerCost{CPUMillis: cpu}}
	}
	server := func(name string, factor float64) serverReport {
		s := serverReport{Name: name, Version: "v1.36.3", StartMillis: 3000, IdleBytes: 300e6,
			Results: []load.Result{res("aggregated", 2*factor), res("openapi-v2", 5*factor)},
			Appear:  &additionResult{Definitions: 10, Millis: render.Latencies{P50: 70 * factor, Max: 100 * factor}, CPUMillis: 25 * factor}}
		for i, c := range clients([]requestLimit{{}, {50, 300}}) {
			s.Clients = append(s.Clients, clientResult{Client: clientName(c.legacy, c.limit), Legacy: c.legacy, requestLimit: c.limit, Rounds: 3, Requests: 2 + 420*min(i, 1),
				Millis: render.Latencies{P50: 50 * factor, Max: 60 * factor}, CPUMillis: 40 * factor})
		}
		return s
	}
	slow := server("kubernetes", 2)
	slow.Results[1] = load.Result{Workload: "openapi-v2", Error: "it broke"}
	slow.Failed, slow.Appear = []string{"add definitions: not done"}, nil
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Protocol: "HTTP/2",
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    load.Plan{Duration: 5 * time.Second, Warmup: 1}, Definitions: &crd.Data{CRDs: 2000, Groups: 400, Properties: 100},
		Servers: []serverReport{server("millrace", 1), slow},
	}
}

func TestRenderGolden(t *testing.T) {
	r := sampleReport()
	r.addNotes()
	benchtest.CheckGolden(t, map[string]string{
		"table": r.text("table"), "wide": r.text("wide"), "markdown": r.text("markdown"),
	})
	if n := r.FailureCount(); n != 2 {
		t.Errorf("%d failures", n)
	}
}
