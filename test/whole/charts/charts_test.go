// Package charts checks the charts of deploy/charts. Each file of values below testdata is
// rendered by the program helm and compared with a golden file beside it. Other tests only
// read the golden files, so they need no helm: the objects are strictly what Kubernetes
// knows, the program knows the flags, and all is as in the manifests for kustomize.
//
// MILLRACE_HELM names the program. `make charts` builds it, and with ARGS=-update writes
// the golden files anew.
package charts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	deploy       = "../../../deploy"
	charts       = deploy + "/charts"
	helmVariable = "MILLRACE_HELM"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { harness.Main(m) }

// releases are the names and namespaces with which charts are as the manifests for kustomize.
var releases = map[string]struct{ name, namespace string }{
	"millrace-replica": {"replica", "millrace-replica"},
	"millrace":         {"server", "millrace-ha"},
}

// chartCase is a chart with a file of values. Its name is CHART/CASE.
type chartCase string

func cases(t *testing.T) (all []chartCase) {
	t.Helper()
	for _, file := range must(filepath.Glob("testdata/*/*.yaml"))(t) {
		all = append(all, chartCase(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".yaml")))
	}
	if len(all) == 0 {
		t.Fatal("there are no files of values")
	}
	return all
}

func (c chartCase) chart() string  { return filepath.Dir(string(c)) }
func (c chartCase) values() string { return "testdata/" + string(c) + ".yaml" }
func (c chartCase) golden() string { return "testdata/" + string(c) + ".golden" }

// helm runs the program helm and returns what it writes to both outputs.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := os.Getenv(helmVariable)
	if program == "" {
		t.Skipf("%s names no helm: make charts builds one", helmVariable)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = cmd.Run()
	return out.String(), failed.String(), err
}

// TestRender compares what helm makes of each chart with the golden files, and lints.
func TestRender(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(string(c), func(t *testing.T) {
			release := releases[c.chart()]
			chart := filepath.Join(charts, c.chart())
			stdout, stderr, err := helm(t, "install", release.name, chart, "--namespace="+release.namespace, "--values="+c.values(), "--dry-run=client", "--output=json")
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			var made struct {
				Manifest string
				Info     struct{ Notes string }
			}
			check(t, json.Unmarshal([]byte(stdout), &made))
			got := hashComment(t, c) + shortened(t).Replace(strings.TrimSpace(made.Manifest)) + "\n---\n" + commented(made.Info.Notes)
			if *update {
				check(t, os.WriteFile(c.golden(), []byte(got), 0o600))
			}
			if want := string(must(os.ReadFile(c.golden()))(t)); got != want {
				at := harness.FirstDifference(got, want)
				t.Errorf("it is not as in %s: if it should not be, run make charts ARGS=-update\n got: %.300s\nwant: %.300s", c.golden(), got[at:], want[at:])
			}
			if stdout, _, err := helm(t, "lint", "--strict", chart, "--values="+c.values()); err != nil {
				t.Errorf("lint: %v: %s", err, stdout)
			}
		})
	}
}

// hashComment returns the line of a golden file that tells of which sources it was made.
func hashComment(t *testing.T, c chartCase) string {
	t.Helper()
	hash := sha256.New()
	for _, root := range []string{filepath.Join(charts, "shared"), filepath.Join(charts, c.chart()), c.values()} {
		check(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			hash.Write(content)
			return err
		}))
	}
	return "# The hash of the chart and the values is " + hex.EncodeToString(hash.Sum(nil)[:8]) + ".\n"
}

// TestGoldenFilesAreCurrent notices charts that were changed and not rendered.
func TestGoldenFilesAreCurrent(t *testing.T) {
	for _, c := range cases(t) {
		golden := must(os.ReadFile(c.golden()))(t)
		if !bytes.HasPrefix(golden, []byte(hashComment(t, c))) {
			t.Errorf("%s is of an older chart or older values: run make charts ARGS=-update", c.golden())
		}
	}
}

// quotedFiles returns pairs of a short line and the file of deploy/monitoring, as charts
// have it, for which the line stands in golden files.
func quotedFiles(t *testing.T) (pairs []string) {
	t.Helper()
	boards := must(filepath.Glob(deploy + "/monitoring/grafana-*.json"))(t)
	for _, file := range append(boards, deploy+"/monitoring/rules.yaml") {
		pad := "    "
		if filepath.Ext(file) == ".yaml" {
			pad = "  "
		}
		content := strings.TrimSpace(string(must(os.ReadFile(file))(t)))
		pairs = append(pairs, pad+"quote: "+filepath.Base(file), pad+strings.ReplaceAll(content, "\n", "\n"+pad))
	}
	return pairs
}

// shortened replaces the quoted files by their lines, and lengthened does the reverse.
func shortened(t *testing.T) *strings.Replacer {
	t.Helper()
	pairs := quotedFiles(t)
	slices.Reverse(pairs)
	return strings.NewReplacer(pairs...)
}

func lengthened(t *testing.T) *strings.Replacer {
	t.Helper()
	return strings.NewReplacer(quotedFiles(t)...)
}

// TestQuotedFiles checks that charts have the rules and dashboards as they are.
func TestQuotedFiles(t *testing.T) {
	text := must(os.ReadFile("testdata/millrace-replica/changed.golden"))(t)
	for i, line := range quotedFiles(t) {
		if i%2 == 0 && !bytes.Contains(text, []byte("\n"+line+"\n")) {
			t.Errorf("no line %q stands for a file", line)
		}
	}
}

// commented makes comments of all lines.
func commented(text string) string {
	lines := "# " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n# ") + "\n"
	return strings.ReplaceAll(lines, "# \n", "#\n")
}

// TestWrongValuesAreRefused gives values that the schemas must refuse, in words that name
// the key.
func TestWrongValuesAreRefused(t *testing.T) {
	for _, one := range []struct{ chart, set, want string }{
		{"millrace-replica", "folow={pods}", "additional properties 'folow' not allowed"},
		{"millrace-replica", "etcd.server=https://etcd.example:2379", "at '/etcd': additional properties 'server' not allowed"},
		{"millrace-replica", "resources.limit.memory=1Gi", "at '/resources': additional properties 'limit' not allowed"},
		{"millrace-replica", "probes.readiness.periodSeconds=1", "at '/probes': additional properties 'readiness' not allowed"},
		{"millrace-replica", "feed=apis", "at '/feed': value must be one of 'api', 'etcd'"},
		{"millrace-replica", "feed=etcd", "at '/etcd/servers': minItems"},
		{"millrace-replica", "etcd.servers={etcd.example}", "at '/etcd/servers/0': 'etcd.example' does not match"},
		{"millrace-replica", "follow={Pods}", "at '/follow/0': 'Pods' does not match"},
		{"millrace-replica", "extraArgs={reads-only}", "at '/extraArgs/0': 'reads-only' does not match"},
		{"millrace-replica", "image.tag=137", "at '/image/tag': got number, want string"},
		{"millrace-replica", "replicas=many", "at '/replicas': got string, want integer"},
		{"millrace", "replicas=1", "at '/etcd/servers': minItems"},
		{"millrace", "rebalanceWatches=10", "additional properties 'rebalanceWatches' not allowed"},
		{"millrace", "flags.--profiling=false", "at '/flags': additional properties '--profiling' not allowed"},
	} {
		t.Run(one.set, func(t *testing.T) {
			_, stderr, err := helm(t, "template", filepath.Join(charts, one.chart), "--set="+one.set)
			if err == nil || !strings.Contains(stderr, one.want) {
				t.Errorf("%s --set=%s: want the words %q, got %v: %s", one.chart, one.set, one.want, err, stderr)
			}
		})
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must fails the test for an error.
func must[T any](made T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		check(tb, err)
		return made
	}
}
