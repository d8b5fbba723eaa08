package replica

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func quickArgs(args ...string) []string {
	return append([]string{"--informers=20", "--objects=2", "--rate=400", "--duration=200ms", "--warmup=20ms", "--settle=1ms"}, args...)
}

func TestRun(t *testing.T) {
	out, progress, err := run(t, quickArgs("-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	// Each setup without informers and with them, and one informer of each resource.
	if len(got.Results) != 2*len(setups())+1 || got.Upstream != "kubernetes v1.36.3-fake" {
		t.Fatalf("got %+v", got)
	}
	for _, setup := range setups() {
		alone, res := got.withoutReaders(setup), got.find(setup, 20)
		if alone == nil || res == nil {
			t.Fatalf("%s was not measured: %+v", setup, got.Results)
		}
		if res.Writes != 80 || res.Events != 2*res.Writes || res.Clients != 2 || res.Millis.P50 <= 0 || res.Millis.P99 < res.Millis.P50 {
			t.Errorf("%s: got %+v", setup, res)
		}
		if res.Upstream.RSSBytes <= 0 || res.Upstream.SentBytes <= 0 || res.Etcd.RSSBytes <= 0 || res.Opening == nil || res.Opening.Writes < 1 {
			t.Errorf("%s: got %+v", setup, res)
		}
		if hasTier := setup == setupReplicaAPI || setup == setupReplicaEtcd; hasTier != (res.tier() != nil) || hasTier != (alone.tier() != nil) {
			t.Errorf("%s: got %+v", setup, res)
		}
	}
	if one := got.oneInformerEach(); one == nil || one.Events != one.Writes {
		t.Errorf("got %+v", one)
	}

	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = run(t, "--from="+file, "-o=markdown"); err != nil || !strings.Contains(out, "| replica, fed by etcd | 20 |") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// TestReplicaThatDoesNotStart checks that the failure of one setup does not end the run.
func TestReplicaThatDoesNotStart(t *testing.T) {
	out, _, err := run(t, quickArgs("--setups=replica-api,direct", "--replica-arg=--break=start")...)
	if err == nil || !strings.Contains(out, "failed: replica-api with 20 informers") || !strings.Contains(out, "the disk is full") {
		t.Errorf("got %v:\n%s", err, out)
	}
	if !strings.Contains(out, "\nupstream         20 ") {
		t.Errorf("the other setup was not measured:\n%s", out)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--informers=25", "--informers=25: give a multiple of 10"},
		{"--informers=0", "--informers=0"},
		{"--setups=", "--setups"},
		{"--setups=proxy", "--setups=proxy"},
		{"--rate=0", "--rate=0"},
		{"--objects=0", "--objects=0"},
		{"--duration=0s", "--duration=0s"},
		{"-o=xml", "-o xml"},
		{"--from=/nowhere", "read report"},
	} {
		if _, _, err := run(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}

func TestObjectsAreOfTheirResources(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range watchedResources() {
		if seen[r.plural()] || !strings.HasPrefix(r.objects(), r.root) || !strings.HasSuffix(r.collection(), "/"+r.plural()) {
			t.Errorf("got %+v", r)
		}
		seen[r.plural()] = true
	}
	if len(seen) != 10 || !strings.Contains(followedResources(), "endpointslices.discovery.k8s.io") {
		t.Errorf("%d resources: %s", len(seen), followedResources())
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
