package quiet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand(), append([]string{"quiet"}, args...)...)
}

func quickArgs(args ...string) []string {
	return append([]string{"--namespaces=3", "--accounts=4", "--config-maps=2", "--write-rate=0,100", "--requests=12", "--pause=0", "--pollers=5", "--every=20ms", "--duration=100ms", "--warmup=20ms", "--settle=1ms"}, args...)
}

// TestRun reads at fake servers, whose replicas pass on all requests. The answers to LISTs of
// namespaces look as if a replica had answered.
func TestRun(t *testing.T) {
	out, progress, err := run(t, quickArgs("-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	// Five fronts with each rate of writes, and with pollers nobody and all fronts but the proxy.
	if len(got.Results) != 10 || len(got.Polls) != 5 || got.Upstream != "kubernetes v1.36.3-fake" {
		t.Fatalf("got %+v", got)
	}
	for _, res := range got.Results {
		if len(res.Reads) != 3 || (res.WritesPerSec > 0) != (res.WriteRate > 0) {
			t.Errorf("got %+v", res)
		}
		for _, read := range res.Reads {
			checkRead(t, res.Front, read)
			if read.Requests != 12 {
				t.Errorf("%s: got %+v", res.Front, read)
			}
		}
	}
	for i, res := range got.Polls {
		if res.Cost == nil || res.Cost.UpstreamRequests <= 0 || res.WriteRate != 50 || (len(res.Reads) == 2) != (i > 0) || (res.Pollers == 5) != (i > 0) {
			t.Errorf("got %+v", res)
		}
		for _, read := range res.Reads {
			checkRead(t, res.Front, read)
			if read.Requests == 0 {
				t.Errorf("%s: got %+v", res.Front, read)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = run(t, "--from="+file, "-o=markdown"); err != nil || !strings.Contains(out, "| replica of a replica | 0.00 |") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func checkRead(t *testing.T, front string, read readResult) {
	t.Helper()
	byUpstream := read.Requests
	if read.Kind == listNamespaces {
		byUpstream = 0
	}
	if read.ByUpstream != byUpstream || read.Millis.P50 <= 0 || read.Millis.P99 < read.Millis.P50 {
		t.Errorf("%s: got %+v", front, read)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--write-rate=-1", "-1 is not from 0 to 10000"},
		{"--poll-write-rate=10001", "10001 is not"},
		{"--namespaces=0", "--namespaces=0"},
		{"--requests=0", "--requests=0"},
		{"--every=0s", "--every=0s"},
		{"--pause=-1s", "--pause=-1s"},
		{"-o=xml", "-o xml"},
		{"--from=/nowhere", "read report"},
	} {
		if _, _, err := run(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}

func sampleReport() *report {
	read := func(kind string, byUpstream int, p50 float64) readResult {
		return readResult{Kind: kind, Requests: 1000, ByUpstream: byUpstream, Millis: render.Latencies{P50: p50, P99: 3 * p50}}
	}
	polls := func(front string, byUpstream int, of cost) result {
		return result{Front: front, WriteRate: 50, WritesPerSec: 49.5, Pollers: 100, Cost: &of, Reads: []readResult{read(listNamespaces, byUpstream, 4), read(getNamespace, byUpstream, 2)}}
	}
	refused := polls(frontEtcd, 0, cost{UpstreamCPUMillis: 110, UpstreamRequests: 12, ReplicaCPUMillis: 300, EtcdCPUMillis: 25})
	refused.Reads[0].Refused = 7
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LoadAverage: "0.12", Upstream: "kubernetes v1.37.2",
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Plan:    plan{Namespaces: 100, Accounts: 2000, ConfigMaps: 10, Requests: 1000, Pause: time.Millisecond, Pollers: 100, Every: time.Second, Duration: 10 * time.Second},
		Results: []result{
			{Front: frontDirect, WriteRate: 50, WritesPerSec: 50.1, Reads: []readResult{read(getNamespace, 1000, 1), read(listNamespaces, 1000, 2), read(getAccount, 1000, 1)}},
			{Front: frontAPI, WriteRate: 50, WritesPerSec: 50.1, Reads: []readResult{read(getNamespace, 900, 2), read(listNamespaces, 0, 3), read(getAccount, 1000, 2)}},
			{WriteRate: 500, Error: "it broke"},
		},
		Polls: []result{
			{Front: frontNobody, WriteRate: 50, Cost: &cost{UpstreamCPUMillis: 100, UpstreamRequests: 10, EtcdCPUMillis: 20}},
			polls(frontDirect, 1000, cost{UpstreamCPUMillis: 600, UpstreamRequests: 210, EtcdCPUMillis: 30}),
			polls(frontAPI, 20, cost{UpstreamCPUMillis: 125, UpstreamRequests: 14, ReplicaCPUMillis: 300, EtcdCPUMillis: 15}),
			refused,
		},
	}
}

func TestRenderGolden(t *testing.T) {
	r := sampleReport()
	benchtest.CheckGolden(t, map[string]string{
		"table": r.text("table"), "markdown": r.text("markdown"), "plot": benchtest.WellFormedSVG(t, r.plot()),
	})
	if n := r.FailureCount(); n != 1 {
		t.Errorf("%d failures", n)
	}
}
