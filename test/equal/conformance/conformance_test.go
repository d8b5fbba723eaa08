// Package conformance runs Kubernetes' conformance tests of the API machinery: straight at a
// kube-apiserver, at this server, and at a kube-apiserver through a replica that follows its
// API. Each is a cluster of its own, with Kubernetes' controllers and scheduler and hollow
// nodes, all of which take the way of the tests. What passes straight passes on each way.
//
//	tests, controllers, scheduler, nodes ─┬─ kube-apiserver
//	                                      ├─ millrace serve
//	                                      └─ millrace replica ── kube-apiserver
//
// `make conformance` builds the tests and the kube-apiserver from Kubernetes' modules, and
// runs them. Tests that need containers are left out: webhooks and aggregated servers.
package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// suiteVariable names the program that has the tests.
	suiteVariable = "MILLRACE_CONFORMANCE_SUITE"
	// focusVariable is a regular expression for the names of the tests to run.
	focusVariable = "MILLRACE_CONFORMANCE_FOCUS"

	defaultFocus = `\[sig-api-machinery\].*\[Conformance\]`
	// needsContainers matches the tests whose pods have to do something.
	needsContainers = `[Ww]ebhook|Aggregator|CustomResourceFieldSelectors`
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestConformance(t *testing.T) {
	if os.Getenv(suiteVariable) == "" || harness.Upstream() == "" {
		t.Skipf("make conformance runs it: %s and a kube-apiserver are not given", suiteVariable)
	}
	ways := []*way{
		{name: "kube-apiserver", start: func(t *testing.T) (server, through *harness.Server) {
			server = startKubeAPIServer(t)
			return server, server
		}},
		{name: "serve", start: func(t *testing.T) (server, through *harness.Server) {
			server = harness.Start(t, harness.ShortTempDir(t))
			return server, server
		}},
		{name: "replica", start: func(t *testing.T) (server, through *harness.Server) {
			server = startKubeAPIServer(t)
			return server, harness.StartReplica(t, server)
		}},
	}
	t.Run("ways", func(t *testing.T) { // all at once, so that their times can be compared
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				w.run(t)
			})
		}
	})
	ways = slices.DeleteFunc(ways, func(w *way) bool { return w.took == 0 }) // -run may leave some out
	compare(t, ways)
}

func startKubeAPIServer(t *testing.T) *harness.Server {
	t.Helper()
	first := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes")
	return harness.StartUpstream(t, harness.Upstream(), first, "--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1")
}

// way is a way to an API server, and how the tests ended that took it.
type way struct {
	name string
	// start starts the API server, and what is in front of it.
	start func(*testing.T) (server, through *harness.Server)

	specs map[string]spec
	took  time.Duration
}

// spec is how one test ended.
type spec struct {
	LeafNodeText            string
	ContainerHierarchyTexts []string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

const passed = "passed"

// run starts a cluster and runs the tests in it.
func (w *way) run(t *testing.T) {
	server, through := w.start(t)
	dir := t.TempDir()
	kubeconfig := harness.KubeconfigFor(t, through, dir)
	harness.StartControlPlane(t, server, through)
	harness.Command(t, "hollow", "--kubeconfig="+kubeconfig, "--nodes=2")

	report := filepath.Join(dir, "report.json")
	cmd := exec.CommandContext(t.Context(), os.Getenv(suiteVariable), "-test.timeout=0",
		"-kubeconfig="+kubeconfig, "-kubectl-path="+harness.InstallKubectl(t, dir, ""), "-provider=local", "-dump-logs-on-failure=false",
		"-ginkgo.focus="+focus(), "-ginkgo.skip="+needsContainers, "-ginkgo.timeout=3h", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Dir = dir
	began := time.Now()
	output, failed := cmd.CombinedOutput()
	w.took = time.Since(began)

	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %v\n%s", failed, err, output[max(0, len(output)-8<<10):])
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(text, &suites); err != nil {
		t.Fatalf("read report: %v", err)
	}
	w.specs = map[string]spec{}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeText == "" || s.State == "skipped" {
				continue
			}
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			w.specs[name] = s
			if s.State != passed {
				t.Logf("%s: %s\n%.2000s", s.State, name, s.Failure.Message)
			}
		}
	}
	if through != server {
		logReads(t, through)
	}
}

func focus() string {
	if given := os.Getenv(focusVariable); given != "" {
		return given
	}
	return defaultFocus
}

// noticeable is the difference of times that compare prints.
const noticeable = 10 * time.Second

// compare prints how the tests ended on each way, and how long they took, and fails for those that passed on the
// first way and not on another.
func compare(t *testing.T, ways []*way) {
	t.Helper()
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(columns, "way\tpassed\tof\ttook\ttests alone\n")
	for _, w := range ways {
		n, alone := 0, time.Duration(0)
		for _, s := range w.specs {
			alone += s.RunTime
			if s.State == passed {
				n++
			}
		}
		fmt.Fprintf(columns, "%s\t%d\t%d\t%v\t%v\n", w.name, n, len(w.specs), w.took.Round(time.Second), alone.Round(time.Second))
	}
	_ = columns.Flush()
	t.Logf("\n%s", table.String())
	if len(ways) == 0 || len(ways[0].specs) == 0 {
		t.Fatal("no test has run")
	}
	straight := ways[0]
	for _, w := range ways[1:] {
		for _, name := range slices.Sorted(maps.Keys(straight.specs)) {
			if longer := w.specs[name].RunTime - straight.specs[name].RunTime; longer > noticeable {
				t.Logf("%s takes %v longer than straight: %s", w.name, longer.Round(time.Second), name)
			}
			if straight.specs[name].State == passed && w.specs[name].State != passed {
				t.Errorf("%s: passed at %s, and %q at %s", name, straight.name, w.specs[name].State, w.name)
			}
		}
	}
}

// readMetric matches a metric that tells how a replica answered reads.
var readMetric = regexp.MustCompile(`(?m)^millrace_(read_requests|read_passed_on|replica_shared_reads)_total(?:\{[^}]*\})? (\S+)$`)

// logReads logs how a replica has answered reads, and for which share of them the upstream
// was not asked.
func logReads(t *testing.T, replica *harness.Server) {
	t.Helper()
	resp, err := replica.HTTPClient().Get(replica.URL + "/metrics")
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	sums := map[string]float64{}
	for _, line := range readMetric.FindAllStringSubmatch(string(body), -1) {
		n, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			t.Fatalf("read metrics: %v", err)
		}
		sums[line[1]] += n
		t.Log(line[0])
	}
	answered, shared, passedOn := sums["read_requests"], sums["replica_shared_reads"], sums["read_passed_on"]
	t.Logf("%.1f %% of %.0f reads were answered or shared", 100*(answered+shared)/(answered+passedOn), answered+passedOn)
}
