package papers

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestServerThatExists(t *testing.T) {
	s, _ := benchtest.StartTLS(t, &benchtest.API{Nodes: 3, Pods: 10, Secrets: 3}, true)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := benchtest.WriteKubeconfig(kubeconfig, s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})); err != nil {
		t.Fatal(err)
	}
	for _, paper := range []string{"b", "c", "e"} {
		args := append([]string{paper, "--kubeconfig=" + kubeconfig, "--context=x", "--scale=0.001", "--duration=20ms", "-o=json"}, quickRuns()[paper]...)
		out, progress, err := run(t, args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, progress)
		}
		var got Report
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Kubeconfig || len(got.Sections) == 0 || !strings.Contains(out, `"server": `) {
			t.Errorf("got %s", out)
		}
		if !strings.Contains(progress, "CPU and memory of the server are not known") {
			t.Errorf("got progress:\n%s", progress)
		}
		if _, err := os.Stat(filepath.Join(dir, benchtest.FillMark)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the objects were not removed: %v", err)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(`{"paper":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := filepath.Join(t.TempDir(), "failed.json")
	if err := os.WriteFile(failed, []byte(`{"paper":"a","steps":[{"name":"lists","error":"no"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, message string }{
		{"e --scale=0", "--scale=0"},
		{"e --scale=NaN", "--scale=NaN"},
		{"e --scale=101", "at most 100"},
		{"e --duration=-1s", "--duration=-1s"},
		{"e --only=x", "--only=x: choose of servers"},
		{"e -o=xml", "-o xml"},
		{"e --delete", "--delete needs --kubeconfig"},
		{"e --context=x", "--context needs --kubeconfig"},
		{"b --own-components", "--own-components needs --kubeconfig"},
		{"e --own-components", "unknown flag"},
		{"e --kubeconfig=/nowhere", "/nowhere: no such file"},
		{"e --kubeconfig=/nowhere --read-paths=millrace", "excludes --read-paths"},
		{"e --kube-apiserver=/nowhere", "there is no such program"},
		{"e --report=/nowhere/page.html", "give another file"},
		{"e --from=/nowhere", "read report"},
		{"e --from=" + file, "not a report of paper e"},
		{"a --from=" + failed, "1 step failed, see the report"},
		{"e x", "unknown command"},
	} {
		_, _, err := run(t, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}

func TestCatalogue(t *testing.T) {
	out, _, err := run(t)
	if err != nil || strings.Count(out, "\n") != len(allPapers()) {
		t.Errorf("got %v:\n%s", err, out)
	}
}
