package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"--workloads=list-memory", "needs --server-pid"},
		{"--server-pid=999999999", "--server-pid=999999999"},
		{"--nodes=5", "--nodes needs --compare"},
		{"--keep", "--keep needs --compare"},
		{"--compare --kubeconfig=x", "exclude each other"},
		{"--compare --server-pid=1", "exclude each other"},
		{"--compare --read-paths=etcd", "choose millrace, kubernetes or both"},
		{"--compare --read-paths=millrace,millrace", "choose millrace, kubernetes or both"},
		{"--compare --pod-size=large", "--pod-size=large"},
		{"--compare --nodes=0", "--nodes=0"},
		{"--compare --skip-fill", "--work-dir"},
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
		o    listOptions
		want int
	}{
		{listOptions{compare: true}, 32},
		{listOptions{workloads: []string{listMemory}, serverPID: os.Getpid()}, 64},
		{listOptions{}, 0},
	} {
		o := c.o
		o.memoryLists, o.output, o.fill = autoLists, "json", fillConfig{1, 1, "4KB", 1}
		o.readPaths = []string{pathMillrace}
		o.plan = plan{Duration: 1e9, Warmup: 1, Timeout: 1e9}
		o.readyTimeout = 1e9
		if err := o.validate(func(string) bool { return false }); err != nil || o.memoryLists != c.want {
			t.Errorf("got %d, %v, want %d", o.memoryLists, err, c.want)
		}
	}
}

func TestKubeconfigPath(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	o := &listOptions{dataDir: "d"}
	if got, want := o.kubeconfigPath(), filepath.Join("d", "admin.kubeconfig"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("KUBECONFIG", "a:b")
	if got := o.kubeconfigPath(); got != "" {
		t.Errorf("got %q, want none, for $KUBECONFIG", got)
	}
	o.kubeconfig = "k"
	if got := o.kubeconfigPath(); got != "k" {
		t.Errorf("got %q, want the flag", got)
	}
}

func TestWorkloadURIs(t *testing.T) {
	about := subject{"ns", "p", "n", "app=web"}
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
		chosen, _, err := chooseSpecs([]string{c.spec})
		if err != nil {
			t.Fatal(err)
		}
		w, err := chosen[0].workload(about, c.rv)
		if err != nil || w.uri != c.uri || w.name != c.name {
			t.Errorf("%s, %s: got %s, %s, %v", c.spec, c.rv, w.name, w.uri, err)
		}
	}
	for _, name := range []string{"pod-get", "pods-of-node", "pods-by-label"} {
		chosen, _, _ := chooseSpecs([]string{name})
		if _, err := chosen[0].workload(subject{}, "0"); err == nil {
			t.Errorf("%s: no error without pods", name)
		}
	}
}

func TestChooseSubject(t *testing.T) {
	var first, second podSample
	first.Metadata.Name = "pending"
	second.Metadata.Name, second.Spec.NodeName = "running", "n"
	second.Metadata.Labels = map[string]string{"b": "2", "a": "1"}
	if got, want := chooseSubject([]podSample{first, second}), (subject{Pod: "running", Node: "n", LabelSelector: "a=1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := chooseSubject([]podSample{first}); got.Pod != "pending" {
		t.Errorf("got %+v", got)
	}
}
