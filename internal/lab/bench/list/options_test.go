package list

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"-o yaml", "choose one of table, wide, json, markdown, svg"},
		{"--workloads=pods", `no workload "pods"`},
		{"--resource-version=new", "choose a number"},
		{"--requests=3 --duration=3s", "choose one of"},
		{"--requests=-1", "--requests=-1: must be at least 0"},
		{"--warmup=0", "--warmup=0: must be at least 1"},
		{"--duration=0s", "--duration=0s"},
		{"--settle=-1s", "--settle=-1s"},
		{"--list-memory=-2", "--list-memory=-2"},
		{"--nodes=5", "choose --compare"},
		{"--compare --pods=0", "it needs --at"},
		{"--compare --pods=-1", "--pods=-1"},
		{"--compare --cold-readers=2", "--cold-readers and --cold-after need --cold"},
		{"--compare --cold-after=1s", "--cold-readers and --cold-after need --cold"},
		{"--compare --cold --cold-after=1s --cold-readers=2", "choose one of --cold-readers and --cold-after"},
		{"--at=/nowhere", "/nowhere"},
		{"--compare --read-paths=etcd", "choose among millrace, millrace-encoded, kubernetes, each once"},
		{"--compare --read-paths=millrace,millrace", "choose among millrace, millrace-encoded, kubernetes, each once"},
		{"--compare --pod-size=large", "--pod-size=large"},
		{"--compare --nodes=0", "--nodes=0"},
		{"--rest=-1s", "--rest=-1s"},
		{"--stall=0s", "--stall=0s"},
		{"--list-rss=0", "--list-rss=0: must be at least 1"},
		{"--compare --secrets=5", "--secrets: list-stalled fills in secrets"},
		{"--compare --workloads=list-stalled --pods=5", "--pods: list-stalled fills in secrets"},
		{"--compare --workloads=list-stalled,pod-get", "run it alone"},
		{"--compare --workloads=list-stalled --secret-size=large", "--secret-size=large"},
		{"--compare surplus", "unknown command"},
		{"--nonsense", "unknown flag"},
	} {
		_, stderr, err := run(t, append([]string{"list"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
		if strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: not one line: %q", c.args, stderr)
		}
	}
}

func TestListMemoryDefault(t *testing.T) {
	for _, c := range []struct {
		o    options
		want int
	}{
		{options{compare: true}, 32},
		{options{compare: true, workloads: []string{listMemory}}, 32},
		{options{compare: true, workloads: []string{listRSS}}, 0},
		{options{compare: true, workloads: []string{listSlowReaders}}, 0},
	} {
		o := c.o
		o.memoryLists, o.output = listsByDefault, "json"
		o.fill = testbed.FillConfig{Nodes: 1, Pods: 1, PodSize: "4KB", Secrets: 1, SecretSize: "1MB", Namespaces: 1}
		o.rssLists, o.stall = 1, 1e9
		o.ReadPaths = []string{testbed.ReadPathMillrace}
		o.plan = load.Plan{Duration: 1e9, Warmup: 1, Timeout: 1e9}
		o.ReadyTimeout = 1e9
		if err := o.validate(func(string) bool { return false }); err != nil || o.memoryLists != c.want {
			t.Errorf("got %d, %v, want %d", o.memoryLists, err, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	names := func(c choice) (all []string) {
		for _, s := range c.specs {
			all = append(all, s.name)
		}
		for _, s := range sections() {
			if c.sections[s.name] {
				all = append(all, s.name)
			}
		}
		return all
	}
	byDefault := []string{"nodes-json", "pods-json", "pods-json-gzip", "pods-protobuf", "pods-protobuf-gzip",
		"pods-of-node", "pods-by-label", "pods-limit", "pods-table", "pod-get"}
	for _, c := range []struct{ asked, want []string }{
		{nil, byDefault},
		{[]string{testbed.DefaultWorkloads, listRSS}, append(slices.Clone(byDefault), listRSS)},
		{[]string{"pod-get", "nodes-json"}, []string{"nodes-json", "pod-get"}},
		{[]string{listSlowReaders}, []string{listSlowReaders}},
	} {
		got, err := choose(c.asked)
		if err != nil || !slices.Equal(names(got), c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.asked, names(got), err, c.want)
		}
	}
	all, err := choose([]string{testbed.AllWorkloads})
	if err != nil || len(all.specs) != len(specs()) || !all.sections[listMemory] || !all.sections[listRSS] || all.sections[listSlowReaders] {
		t.Errorf("all workloads are %q, %v", names(all), err)
	}
}

func TestWorkloadURIs(t *testing.T) {
	about := sampleObjects{"ns", "p", "n", "app=web"}
	for _, c := range []struct{ spec, rv, name, uri string }{
		{"pods-json", "0", "pods-json", "/api/v1/pods?resourceVersion=0"},
		{"pods-json", "unset", "pods-json@unset", "/api/v1/pods"},
		{"pods-json", "12", "pods-json@12", "/api/v1/pods?resourceVersion=12"},
		{"pod-get", "0", "pod-get", "/api/v1/namespaces/ns/pods/p?resourceVersion=0"},
		{"pods-of-node", "unset", "pods-of-node@unset", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn"},
		{"pods-by-label", "0", "pods-by-label", "/api/v1/pods?labelSelector=app%3Dweb&resourceVersion=0"},
		{"pods-limit", "0", "pods-limit", "/api/v1/pods?limit=500"},
		{"pods-table", "unset", "pods-table", "/api/v1/pods?limit=500"},
	} {
		w, err := specByName(c.spec).workload(about, c.rv)
		if err != nil || w.URI != c.uri || w.Name != c.name {
			t.Errorf("%s, %s: got %s, %s, %v", c.spec, c.rv, w.Name, w.URI, err)
		}
	}
	for _, name := range []string{"pod-get", "pods-of-node", "pods-by-label"} {
		if _, err := specByName(name).workload(sampleObjects{}, "0"); err == nil {
			t.Errorf("%s: no error without pods", name)
		}
	}
}

func TestChooseSample(t *testing.T) {
	var first, second testbed.PodSample
	first.Metadata.Name = "pending"
	second.Metadata.Name, second.Spec.NodeName = "running", "n"
	second.Metadata.Labels = map[string]string{"b": "2", "a": "1"}
	first.Metadata.Labels = map[string]string{"a": "1", fill.LabelShare: "7", fill.LabelGroup: "0"}
	if got, want := chooseSample([]testbed.PodSample{first, second}), (sampleObjects{Pod: "running", Node: "n", LabelSelector: "a=1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := chooseSample([]testbed.PodSample{first}); got.Pod != "pending" || got.LabelSelector != "bench.millrace.io/share=7" {
		t.Errorf("got %+v", got)
	}
}
