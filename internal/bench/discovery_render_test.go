package bench

import (
	"testing"
	"time"
)

func sampleDiscoveryReport() *discoveryReport {
	res := func(name string, cpu float64) result {
		return result{Workload: name, Concurrency: 1, Requests: 50, Bytes: 1_500_000, ColdMillis: 100, ColdCPUMillis: 90,
			Millis: latencies{P50: 10, P99: 20}, ClientCPUMillis: 1, Server: &serverCost{CPUMillis: cpu}}
	}
	server := func(name string, factor float64) discoveryServer {
		s := discoveryServer{Name: name, Version: "v1.36.3", StartMillis: 3000, IdleBytes: 300e6,
			Results: []result{res("aggregated", 2*factor), res("openapi-v2", 5*factor)},
			Appear:  &appearResult{Definitions: 10, Millis: latencies{P50: 70 * factor, Max: 100 * factor}, CPUMillis: 25 * factor}}
		for i, c := range discoveryClients() {
			s.Clients = append(s.Clients, clientResult{Client: c.name, Rounds: 3, Requests: 2 + 420*min(i, 1),
				Millis: latencies{P50: 50 * factor, Max: 60 * factor}, CPUMillis: 40 * factor})
		}
		return s
	}
	slow := server("kubernetes", 2)
	slow.Results[1] = result{Workload: "openapi-v2", Error: "it broke"}
	slow.Failed, slow.Appear = []string{"add definitions: not done"}, nil
	return &discoveryReport{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Protocol: "HTTP/2",
		Machine: machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    plan{Duration: 5 * time.Second, Warmup: 1}, Definitions: &crdData{CRDs: 2000, Groups: 400, Properties: 100},
		Servers: []discoveryServer{server("millrace", 1), slow},
	}
}

func TestDiscoveryRenderGolden(t *testing.T) {
	r := sampleDiscoveryReport()
	r.check()
	checkGolden(t, map[string]string{
		"discovery-table": r.text("table"), "discovery-wide": r.text("wide"), "discovery-markdown": r.text("markdown"),
	})
}
