package papers

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// TestProvisionView shows three paths: one with all figures, one that failed halfway, and a cluster
// whose server does not report what it sent.
func TestProvisionView(t *testing.T) {
	const printed = `{"results": [
		{"path": "millrace", "server": "v1", "seconds": 20, "steps": {"provision": {"p50": 4000, "p95": 9000, "p99": 9500}, "watch": {"p50": 3, "p99": 70}},
			"costs": [{"part": "etcd", "cpuSeconds": 1}, {"part": "server", "cpuSeconds": 11.5, "peakBytes": 500000000, "sentBytes": 300000000}], "requests": 7000},
		{"path": "kubernetes", "steps": {"provision": {"p50": 1, "p95": 1, "p99": 1}}, "error": "not done within --timeout=1s"},
		{"path": "cluster", "server": "v2", "seconds": 30, "steps": {"provision": {"p95": 12000}}, "costs": [{"part": "server", "cpuSeconds": 20, "peakBytes": 900000000}]}
	]}`
	r := &Report{Paper: "b", Scale: 1, Steps: []StepReport{{Name: stepProvision, Printed: []byte(printed)}}}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	text := r.text("markdown")
	for _, want := range []string{
		"1000 pods from creation to running, on 100 nodes:\n",
		"| figure | published | this server | Millrace | ratio to this server |",
		"| created → running: p95 | 34.43 s, then 14.05 s | 12.0 s | 9.00 s | 1.33× |",
		"| all run, and every watcher knows | – | 30.0 s | 20.0 s | 1.50× |",
		"| a pod's write → its delivery: p99 | – | – | 70.0 ms | – |",
		"| CPU of the server | – | 20.0 s | 11.5 s | 1.74× |",
		"| most memory of the server | – | 900 MB | 500 MB | 1.80× |",
		"| bytes that the server sent | 20 GB, then 7.5 GB | – | 300 MB | – |",
		"- Failed: stock read path, pods from creation to running: not done within --timeout=1s\n",
		"this server v2, Millrace v1;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| stock read path |") {
		t.Errorf("the path that failed has a column:\n%s", text)
	}
}

func readPaper(t *testing.T, name string, scale float64) *Paper {
	t.Helper()
	p, err := loadPaper(name, size{scale: scale})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStepArgs checks that the bench of each step knows the flags that it gets.
func TestStepArgs(t *testing.T) {
	started := options{readPaths: []string{testbed.ReadPathMillrace, testbed.ReadPathStock}, kubeAPIServer: "k", serverArgs: []string{"--v=1"}}
	existing := options{ownComponents: true}
	existing.server.Kubeconfig, existing.server.Context = "k", "x"
	for _, name := range paperNames() {
		for _, s := range readPaper(t, name, 0.001).Steps {
			for _, o := range []options{started, existing} {
				args := slices.Concat(s.words(), o.benchArgs(s))
				cmd, flags, err := bench.NewCommand().Find(args)
				if err == nil {
					err = cmd.ParseFlags(flags)
				}
				if err != nil || cmd.Name() != args[0] {
					t.Errorf("paper %s, step %s, %q: %v", name, s.Name, args, err)
				}
			}
		}
	}
}

// TestProvisionedPods checks that the nodes have room for all pods at every scale. A node takes
// 110 pods, and one additional pod is the first.
func TestProvisionedPods(t *testing.T) {
	for _, scale := range []float64{0.0001, 0.001, 0.0049, 0.0051, 0.0149, 0.105, 1, 100} {
		steps := readPaper(t, "b", scale).Steps
		var pods, nodes, watchers int
		for _, arg := range steps[len(steps)-1].words() {
			name, value, _ := strings.Cut(arg, "=")
			switch n, _ := strconv.Atoi(value); name {
			case "--pods":
				pods = n
			case "--nodes":
				nodes = n
			case "--watchers":
				watchers = n
			}
		}
		if pods == 0 || watchers == 0 || pods+1 > 110*nodes || pods*watchers*5 > 40_000_000 {
			t.Errorf("scale %g: %d pods on %d nodes for %d watchers", scale, pods, nodes, watchers)
		}
	}
	if runs := slices.Sorted(maps.Keys(quickRuns())); !slices.Equal(runs, paperNames()) {
		t.Errorf("quick runs of %q", runs)
	}
}
