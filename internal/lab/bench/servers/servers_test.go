package servers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand(), append([]string{"servers"}, args...)...)
}

func TestRun(t *testing.T) {
	out, progress, err := run(t, "--servers=2", "--replicas=1", "--duration=20ms", "--settle=1ms", "-o=json")
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	// Two read paths, servers and replicas, two workloads.
	if len(got.Results) != 8 {
		t.Fatalf("got %+v", got)
	}
	for _, res := range got.Results {
		if res.Requests < res.Clients || res.Bytes <= 0 || res.Millis.P50 <= 0 || res.RSSBytes <= 0 {
			t.Errorf("got %+v", res)
		}
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err = run(t, "--from="+file, "-o=markdown"); err != nil || !strings.Contains(out, "| 1 × replica of stock read path |") {
		t.Errorf("got %v:\n%s", err, out)
	}
	benchtest.WellFormedSVG(t, got.plot())
}

func TestProxy(t *testing.T) {
	out, progress, err := run(t, "--servers=2", "--replicas=0", "--read-paths=millrace", "--proxy", "--rates=100", "--duration=50ms", "--settle=1ms", "-o=json")
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 3 {
		t.Fatalf("got %+v", got)
	}
	if at := got.Results[2]; at.Rate != 100 || at.Requests != 5 || at.Workload != "nodes" || at.Version == "" {
		t.Errorf("got %+v", at)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--servers=-1", "-1 is not from 0 to 16"},
		{"--replicas=17", "17 is not"},
		{"--servers=0 --replicas=0", "give at least one number"},
		{"--nodes=0", "--nodes"},
		{"--duration=0s", "--duration=0s"},
		{"--rates=10,0", "--rates: 0 is not"},
		{"--read-paths=x", "--read-paths"},
		{"--at=/nowhere", "--at=/nowhere"},
		{"--at=/nowhere --read-paths=millrace", "it excludes --read-paths"},
		{"--at=/nowhere --kube-apiserver=/nowhere", "it excludes --kube-apiserver"},
		{"--at-context=x", "--at-context needs --at"},
		{"-o=xml", "-o xml"},
	} {
		if _, _, err := run(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}
