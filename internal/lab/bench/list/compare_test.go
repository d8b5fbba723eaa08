package list

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/test/support/benchtest"
)

func quickArgs(args ...string) []string {
	return append([]string{"list", "--duration=20ms", "--warmup=1", "--settle=0s", "--concurrency=2", "--nodes=3", "--pods=600"}, args...)
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	out, progress, err := run(t, quickArgs("--compare", "--work-dir="+dir, "--workloads=all", "--list-memory=3", "--list-rss=2", "--rest=1ms", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Servers) != 2 || len(got.Floor) != len(specs()) || len(got.Notes) != 0 {
		t.Fatalf("got %d servers, %d floors, notes %q", len(got.Servers), len(got.Floor), got.Notes)
	}
	for _, s := range got.Servers {
		if s.Version != "v1.36.3-fake" || len(s.Results) != len(specs()) || s.StartMillis <= 0 || s.Memory == nil || s.SlowReaders != nil {
			t.Errorf("got %+v", s)
		}
		if s.RSS == nil || s.RSS.Lists != 2 || len(s.RSS.Encodings) != 4 || s.RSS.IdleBytes <= 0 || s.RSS.PeakBytes < s.RSS.IdleBytes || s.RSS.AfterBytes <= 0 {
			t.Errorf("got %+v", s.RSS)
		}
		for _, res := range s.Results {
			floor := load.FindResult(got.Floor, res.Workload)
			if floor == nil || floor.Bytes != res.Bytes || floor.Items != res.Items || floor.ContentEncoding != res.ContentEncoding {
				t.Errorf("floor %+v does not do the work of %+v", floor, res)
			}
			if res.Server == nil || res.Server.RSSBytes <= 0 || res.Requests < 2 {
				t.Errorf("got %+v", res)
			}
		}
	}
	if got.Data == nil || got.Data.Pods != 600 || got.Samples.Pod != "pod-0" {
		t.Errorf("got data %+v, samples %+v", got.Data, got.Samples)
	}

	_, _, err = run(t, quickArgs("--compare", "--work-dir="+dir)...)
	if err == nil || !strings.Contains(err.Error(), "has data already") {
		t.Errorf("filled twice: %v", err)
	}
	out, _, err = run(t, quickArgs("--compare", "--workloads=pods-json-gzip", "--list-memory=0", "--read-paths=kubernetes", "--http1")...)
	if err != nil || !strings.Contains(out, "pods-json-gzip") || !strings.Contains(out, "HTTP/1.1") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// TestCompareWithExternalEtcd measures servers over an etcd that outlives them. The fake "fill" stores
// its mark there.
func TestCompareWithExternalEtcd(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	out, progress, err := run(t, quickArgs("--compare", "--external-etcd", "--work-dir="+dir, "--list-memory=0", "--workloads=pods-json", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if !got.ExternalEtcd || len(got.Servers) != 2 || got.Servers[1].Results[0].Items != 700 {
		t.Errorf("got %+v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestCompareSlowReaders(t *testing.T) {
	out, progress, err := run(t, "list", "--compare", "--workloads=list-stalled", "--secrets=20", "--secret-size=1KB",
		"--stall=50ms", "--rest=1ms", "--settle=0s", "--concurrency=5", "--read-paths=millrace")
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	for _, want := range []string{"5 LISTs of all secrets at once", "20 secrets of 1KB", "cut off"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "req/s") {
		t.Errorf("a table of workloads in\n%s", out)
	}
}

func TestCompareLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if _, _, err := run(t, quickArgs("--compare", "--workloads=nodes-json", "--list-memory=0")...); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "millrace-bench-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestCompareExplainsFailedServers(t *testing.T) {
	for broken, messages := range map[string][]string{
		"start": {"it ended (exit status 1)", "the disk is full"},
		"list":  {"it ended by itself (exit status 7)"},
		"deaf":  {"not ready within 1s"},
	} {
		args := quickArgs("--compare", "--list-memory=0", "--server-arg=--break="+broken)
		if broken == "deaf" {
			args = append(args, "--ready-timeout=1s")
		}
		_, _, err := run(t, args...)
		for _, message := range messages {
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: got %v, want %q", broken, err, message)
			}
		}
	}
}

func TestServerThatRuns(t *testing.T) {
	_, cfg := benchtest.StartTLS(t, &benchtest.API{Nodes: 3, Pods: 10}, true)
	path := filepath.Join(t.TempDir(), "k")
	if err := benchtest.WriteKubeconfig(path, cfg.Host, cfg.CAData); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "list", "--at="+path, "--pods=0", "--floor=false", "--list-memory=0", "--requests=2", "--settle=0s", "--workloads=nodes-json", "--resource-version=0,unset", "-o=wide")
	if err != nil || !strings.Contains(out, "nodes-json@unset") || !strings.Contains(out, "v1.36.3-fake") || strings.Contains(out, "pods of") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestWorkloadsHelp(t *testing.T) {
	out, _, err := run(t, "list", "--workloads=help")
	if err != nil || strings.Count(out, "\n") != len(specs())+len(sections())+3 {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func TestCompareCold(t *testing.T) {
	out, progress, err := run(t, quickArgs("--compare", "--cold", "--workloads=pods-json,pods-protobuf", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(progress, "measuring pods-"); n != 4 {
		t.Errorf("%d servers started, want one for each workload and read path:\n%s", n, progress)
	}
	for _, s := range got.Servers {
		if len(s.Results) != 2 || s.Results[0].ColdMillis <= 0 || s.Results[0].Requests != 1 {
			t.Errorf("got %+v", s)
		}
	}
	if text := got.text("markdown"); !strings.Contains(text, "kubernetes cold/millrace") || !strings.Contains(text, "| pods-protobuf |") {
		t.Errorf("got %s", text)
	}
	for _, s := range got.Servers {
		if len(s.Starts) != 2 || s.Starts[0].Millis <= 0 || s.Starts[0].RSSBytes <= 0 || s.Starts[1].PeakBytes < s.Starts[1].RSSBytes {
			t.Errorf("starts: %+v", s.Starts)
		}
	}
	out, _, err = run(t, quickArgs("--compare", "--cold", "--cold-after=20ms", "--read-paths=millrace", "--workloads=pods-json", "-o=markdown")...)
	if err != nil || !strings.Contains(out, "20ms after it was ready") {
		t.Errorf("%v: got %s", err, out)
	}
	_, _, err = run(t, quickArgs("--compare", "--read-paths=millrace,kube-apiserver")...)
	if err == nil || !strings.Contains(err.Error(), "--read-paths") {
		t.Errorf("a kube-apiserver that nothing names: %v", err)
	}
}

func TestCompareColdReaders(t *testing.T) {
	out, progress, err := run(t, quickArgs("--compare", "--cold", "--cold-readers=5", "--workloads=pods-json,pods-json-gzip", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Servers {
		if len(s.Readers) != 2 || len(s.Starts) != 2 || len(s.Results) != 0 {
			t.Fatalf("got %+v", s)
		}
		plain, zipped := s.Readers[0], s.Readers[1]
		if plain.Complete != 5 || zipped.Complete != 5 || plain.PeakBytes < plain.BeforeBytes || plain.AfterBytes <= 0 || plain.Seconds <= 0 || zipped.BodyBytes <= 0 || plain.BodyBytes < 2*zipped.BodyBytes {
			t.Errorf("got %+v", s.Readers)
		}
	}
	text := got.text("markdown")
	for _, want := range []string{"5 clients that LIST at once", "| pods-json-gzip | kubernetes |", "until it is ready, medians", "| millrace | 2 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	out, _, err = run(t, quickArgs("--compare", "--cold", "--cold-readers=2", "--workloads=pods-json", "--read-paths=millrace", "--server-arg=--break=list")...)
	if err == nil {
		t.Errorf("a server that ends with the first LIST was measured:\n%s", out)
	}
}
