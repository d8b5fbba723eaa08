package model

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs the command with arguments and returns what it prints.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors = true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--tree=2,x", "--tree=2,x: must be auto, or the number of replicas at each depth, as in 2,4"},
		{"--tree=", "--tree=: must be auto"},
		{"--tree=4,2", "as many replicas as the depth before"},
		{"--tree=0", "each from 1"},
		{"--nodes=0", "--nodes=0: choose 1 to"},
		{"--nodes=ten", "invalid argument"},
		{"--pod-size=big", `"big" is no size: write it as in 4KB`},
		{"--memory=1", "--memory is 1: choose a number from"},
		{"--churn=-1", "--churn is -1"},
		{"--churn=NaN", "--churn is NaN"},
		{"--storm=2", "--storm=2: choose a fraction"},
		{"--servers=0", "--servers=0: choose 1 to"},
		{"--lease-interval=0s", "choose 1s or more"},
		{"--own-etcd=pods", "choose leases, events or both"},
		{"--agents=nobody", `there is no profile "nobody": choose from`},
		{"--profiles=does-not-exist", "does-not-exist"},
		{"--output=xml", "--output=xml: choose one of table"},
		{"--tables=x", "--tables=x: choose from needs"},
		{"--report=does-not-exist/page.html", "give another file"},
		{"--plot=x", "--plot=x: choose cpu or memory"},
		{"--reports=does-not-exist", "give --reports"},
		{"check --reports=does-not-exist", "give --reports"},
		{"check --output=svg", "choose one of table, markdown, json"},
		{"constants --output=svg", "choose one of table, markdown, json"},
		{"more", "unknown command"},
	} {
		if out, err := execute(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("millrace-tools model %s: got %v and %q, want an error with %q", c.args, err, out, c.want)
		}
	}
}

func TestFormats(t *testing.T) {
	page := filepath.Join(t.TempDir(), "scale.html")
	for format, want := range map[string]string{
		"table": "the first limit is", "markdown": "| nodes | read at |", "svg": "<svg xmlns", "json": `"origin": "assumed"`,
	} {
		out, err := execute(t, "--nodes=1000,5000", "-o", format, "--report="+page)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("-o %s: got %v and %.200q, want %q", format, err, out, want)
		}
		if format == "json" {
			var r Report
			if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Sizes) != 2 {
				t.Errorf("the JSON is none, or has other sizes: %v", err)
			}
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5,000 nodes", "replicas of kube-apiserver", "kubernetes.event", "</html>"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"ZgotmplZ", "src=", "href=", "url(", "<no value>"} {
		if strings.Contains(string(html), not) {
			t.Errorf("the page has %q: it must load nothing", not)
		}
	}
	if out, err := execute(t, "constants", "-o", "json"); err != nil || !strings.Contains(out, `"kubernetes.event"`) {
		t.Errorf("constants: %v, %.100q", err, out)
	}
	if out, err := execute(t, "check", "--reports="+reports); err != nil || !strings.Contains(out, "depth 2, 10,000 informers") {
		t.Errorf("check: %v, %.100q", err, out)
	}
	if out, err := execute(t, "--nodes=1000", "--reports="+reports, "--plot=memory", "-o", "svg"); err != nil || !strings.Contains(out, "Memory of one API server") {
		t.Errorf("plot: %v, %.100q", err, out)
	}
}

// TestCounts has a cluster of ten nodes in numbers, as millrace-tools analyze profile prints it.
func TestCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.json")
	text := `{"resources": [{"resource": "pods", "objects": 200, "bytes": 9000}, {"resource": "nodes", "objects": 10, "bytes": 12000},
		{"resource": "events", "objects": 50}, {"resource": "events.events.k8s.io", "objects": 50}, {"resource": "things.example.com", "objects": 70, "bytes": 50000}, {"resource": "priorityclasses.scheduling.k8s.io", "objects": 0.5, "bytes": 500},
		{"resource": "customresourcedefinitions.apiextensions.k8s.io", "objects": 0.9}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "--nodes=1000", "--counts="+file, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Cluster.PodsPerNode != 20 || r.Cluster.PodBytes != 9000 || r.Cluster.NodeBytes != 12000 {
		t.Errorf("the cluster is %+v", r.Cluster)
	}
	want := map[string]float64{"pods": 20_000, "nodes": 1000, "things.example.com": 7000, "priorityclasses.scheduling.k8s.io": 0.5}
	for _, o := range r.Objects {
		if n, ok := want[o.Resource]; ok && (o.Objects != n || !o.Counted) {
			t.Errorf("there are %g %s, counted %v, want %g", o.Objects, o.Resource, o.Counted, n)
		}
		if o.Resource == eventsAlias {
			t.Error("events count twice")
		}
		delete(want, o.Resource)
	}
	if len(want) > 0 {
		t.Errorf("these are missing: %v", want)
	}
	for _, args := range [][]string{{"--counts=" + file, "--pods-per-node=5"}, {"--counts=" + file + ".none"}} {
		if _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), "counts") {
			t.Errorf("millrace-tools model %v: got %v", args, err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"resources": [{"resource": "pods", "objects": 1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "--counts="+file); err == nil || !strings.Contains(err.Error(), "no nodes") {
		t.Errorf("a file without nodes: got %v", err)
	}
}

// TestExtremes has clusters that are almost nothing, or very much: all figures are numbers.
func TestExtremes(t *testing.T) {
	for _, args := range []string{
		"--nodes=1 --pods-per-node=0 --churn=0", "--nodes=1 --agents= --kube-proxy=false", "--nodes=100000000 --churn=100", "--nodes=10 --servers=1 --tree=1",
		"--nodes=1000 --storm=0", "--nodes=5000 --pod-size=1MB --crds=2000", "--nodes=200 --agents=offenders,mesh,gitops --tree=1,1,1,5",
		"--nodes=1000000 --cores=1 --memory=1GB --network=1G", "--nodes=20000 --pods-per-node=110 --pod-volumes=2",
	} {
		for _, format := range []string{"svg", "table --tables=breaks,remedies,lacks,profiles,objects,notes"} {
			out, err := execute(t, strings.Fields(args+" -o "+format)...)
			if err != nil {
				t.Errorf("millrace-tools model %s: %v", args, err)
			}
			for _, not := range []string{"NaN", "Inf", "-9223"} {
				if strings.Contains(out, not) {
					t.Errorf("millrace-tools model %s -o %s prints %s", args, format, not)
				}
			}
		}
	}
	// JSON has no NaN: it would be an error.
	for _, args := range []string{"--nodes=1 --pods-per-node=0 --churn=0 -o json", "--nodes=100000000 --cores=1 -o json"} {
		if _, err := execute(t, strings.Fields(args)...); err != nil {
			t.Errorf("millrace-tools model %s: %v", args, err)
		}
	}
}

// TestOwnProfile has an agent of the user's, with a resource that the model does not know.
func TestOwnProfile(t *testing.T) {
	dir := t.TempDir()
	text := "description: mine\nagents:\n- name: mine\n  reads:\n  - {resource: example.com/v1/things}\n"
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "--nodes=1000", "--profiles="+dir, "--agents=mine")
	if err != nil || !strings.Contains(out, "mine") || !strings.Contains(out, "guesses, a tenth of the numbers of pods: things.example.com") {
		t.Errorf("got %v, and %q", err, out)
	}
}
