package storm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand(), append([]string{"storm"}, args...)...)
}

// TestRun runs a few nodes at fake servers, which are killed and restarted between the storms.
// The fake servers let every watch resume.
func TestRun(t *testing.T) {
	out, progress, err := run(t, "--nodes=3", "--agents=", "--within=1ms", "--rest=0", "--down=0", "-o=json")
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 4 {
		t.Fatalf("got %+v", got)
	}
	for _, res := range got.Results {
		// A kubelet has five informers, and a kube-proxy four.
		want := result{Informers: 27}
		if res.Clients == clientsNew {
			want.Lists = 27
		}
		if res.Informers != want.Informers || res.Lists != want.Lists || res.Refused != 0 || res.PeakBytes <= 0 || res.SentBytes <= 0 || res.ReadySeconds <= 0 || res.FirstGetSeconds <= 0 {
			t.Errorf("got %+v", res)
		}
		if !slices.IsSorted(res.SyncedSeconds) || res.syncedSeconds(1) <= 0 || res.GetMillis.P50 <= 0 {
			t.Errorf("got %+v", res)
		}
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = run(t, "--from="+file, "-o=markdown"); err != nil || !strings.Contains(out, "| stock read path, returning | 0 | 0 |") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// TestFailure measures a server that does not start.
func TestFailure(t *testing.T) {
	out, _, err := run(t, "--nodes=1", "--agents=", "--read-paths=millrace", "--server-arg=--break=start")
	if err == nil || !strings.Contains(out, "not measured: millrace, new: start millrace server") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--nodes=0", "--nodes=0"},
		{"--pods-per-node=0", "--pods-per-node=0"},
		{"--pod-size=x", "--pod-size=x"},
		{"--agents=x", "x"},
		{"--within=0s", "--within=0s"},
		{"--down=-1s", "--down=-1s"},
		{"--read-paths=x", "--read-paths"},
		{"-o=xml", "-o xml"},
		{"--from=/nowhere", "read report"},
	} {
		if _, _, err := run(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}

// TestTracker follows three informers: one is lost and lists, one resumes, and one ends. In between
// they lose watches, soon after they began and later.
func TestTracker(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Now())
	tr := newTracker(now)
	tell := func(number uint64, states ...hollow.InformerState) {
		for _, s := range states {
			tr.Informer(number, s)
		}
	}
	start := now.Now()
	pass := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	pass(time.Minute)
	tell(1, hollow.InformerListing, hollow.InformerSynced, hollow.InformerLost)
	tell(2, hollow.InformerListing, hollow.InformerSynced, hollow.InformerLost)
	tell(3, hollow.InformerListing)
	tr.Failed("429 slow down")
	if n := tr.watchCount(); n != 0 {
		t.Errorf("%d watches are open", n)
	}
	tr.reset()
	tell(1, hollow.InformerListing, hollow.InformerSynced)
	tell(2, hollow.InformerSynced)
	tr.Started()
	tr.Failed("429 slow down")
	for range 2 {
		tr.Failed("410 too old")
	}
	want := func(synced int, all bool) {
		t.Helper()
		if got, _ := tr.counts(); got != synced || tr.allSyncedBy(now.Now()) != all || tr.allSyncedBy(start) {
			t.Errorf("%d informers are synced, all of them %v, want %d and %v", got, tr.allSyncedBy(now.Now()), synced, all)
		}
	}
	want(2, false)
	tell(3, hollow.InformerEnded)
	want(2, true)
	tell(1, hollow.InformerLost) // at once
	want(1, false)
	tell(1, hollow.InformerSynced)
	pass(holdTime)
	before := now.Now()
	tell(1, hollow.InformerLost) // after a while, as watches do
	want(2, true)
	pass(time.Second)
	tell(1, hollow.InformerSynced)
	want(2, true)
	if !tr.allSyncedBy(before) {
		t.Error("an informer that resumed counts as synced later")
	}
	if n := tr.watchCount(); n != 2 {
		t.Errorf("%d watches are open, want 2", n)
	}
	var res result
	tr.add(&res, start)
	if res.Informers != 2 || res.Lists != 1 || res.Refused != 1 || !slices.Equal(res.Failures, []hollow.ErrorKind{{Message: "410 too old", Count: 2}}) {
		t.Errorf("got %+v", res)
	}
}

func sampleReport() *report {
	synced := func(first, last float64) (seconds []float64) {
		for percent := range 100 {
			seconds = append(seconds, first+(last-first)*float64(percent)/99)
		}
		return seconds
	}
	sample := func(path, clients string, scale float64) result {
		return result{
			ReadPath: path, Clients: clients, Version: "v1.37.2", ReadySeconds: 2 * scale, Informers: 20_000, SyncedSeconds: synced(3*scale, 20*scale),
			CPUSeconds: 12.3 * scale, PeakBytes: int64(400e6 * scale), SentBytes: 1e9, EtcdCPUSeconds: 2, ClientCPUSeconds: 9, Lists: 20_000,
			FirstGetSeconds: 1.5 * scale, Gets: 300, GetMillis: render.Latencies{P50: 1.2 * scale, P90: 3, P99: 80 * scale, Max: 200},
		}
	}
	returning := sample(testbed.ReadPathMillrace, clientsReturning, 0.5)
	returning.Lists = 0
	refused := sample(testbed.ReadPathKubernetes, clientsReturning, 3)
	refused.Refused = 123
	refused.Failures = []hollow.ErrorKind{{Message: "410 too old resource version: … (…)", Count: 700}, {Message: "connect: refused", Count: 300}, {Message: "410 gone", Count: 2}}
	return &report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LoadAverage: "0.12",
		Machine: testbed.Machine{Cores: 2, CPU: "Model 1", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Data:    testbed.FillConfig{Nodes: 1000, Pods: 30_000, PodSize: "4KB", Services: true, Leases: true, Namespaces: 20},
		Plan:    plan{Nodes: 1000, Agents: []string{"network", "logs"}, Within: 5 * time.Second, Rest: 150 * time.Second, Down: time.Second},
		Results: []result{
			sample(testbed.ReadPathMillrace, clientsNew, 1), returning, sample(testbed.ReadPathKubernetes, clientsNew, 2), refused,
			{ReadPath: testbed.ReadPathStock, Clients: clientsNew, Error: "it broke"},
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
