// Package monitoring checks the files of deploy/monitoring: Prometheus and Grafana can
// read them, the metrics that they name exist, and every alert has a runbook.
package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const folder = "../../../deploy/monitoring/"

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(read(t, folder+"rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

type panel struct {
	Title, Type string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

type board struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

func boards(t *testing.T) map[string]board {
	t.Helper()
	names, err := filepath.Glob(folder + "grafana-*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := map[string]board{}
	for _, name := range names {
		var b board
		if err := json.Unmarshal(read(t, name), &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[filepath.Base(name)] = b
	}
	return all
}

// TestBoards checks the dashboards for mistakes that would make an import fail.
func TestBoards(t *testing.T) {
	seen := map[string]string{}
	for name, b := range boards(t) {
		if other := seen[b.UID]; b.UID == "" || b.Title == "" || other != "" {
			t.Errorf("%s has the title %q and the uid %q, as %q has", name, b.Title, b.UID, other)
		}
		seen[b.UID] = name
		if v := b.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" {
			t.Errorf("%s has no variable for its data source", name)
		}
		for i, p := range b.Panels {
			if p.Type == "row" {
				continue
			}
			if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %q has another data source, no target, or is beyond the edge", name, p.Title)
			}
			for _, q := range b.Panels[:i] {
				if overlap(p.GridPos, q.GridPos) {
					t.Errorf("%s: panels %q and %q overlap", name, p.Title, q.Title)
				}
			}
		}
	}
}

func overlap(a, b struct{ X, Y, W, H int }) bool {
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// TestRunbooks checks that each alert has a section of the runbook, and each section an
// alert.
func TestRunbooks(t *testing.T) {
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (Millrace\w+)$`).FindAllSubmatch(read(t, "../../../docs/runbooks.md"), -1) {
		sections[string(m[1])] = true
	}
	alerts := map[string]bool{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		if want := "docs/runbooks.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want || !sections[r.Alert] {
			t.Errorf("%s leads to %q, and has a section: %v", r.Alert, r.Annotations["runbook_url"], sections[r.Alert])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s lacks a summary, a description, a time or a severity", r.Alert)
		}
	}
	for name := range sections {
		if !alerts[name] {
			t.Errorf("docs/runbooks.md has a section %s, which is no alert", name)
		}
	}
}

// expressions returns the PromQL of all dashboards and rules, with Grafana's variables
// replaced.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	for _, b := range boards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				all = append(all, strings.NewReplacer("$job", ".*", "$instance", ".*").Replace(target.Expr))
			}
		}
		for _, v := range b.Templating.List {
			if _, inner, ok := strings.Cut(v.Definition, "label_values("); ok {
				all = append(all, strings.ReplaceAll(inner[:strings.LastIndex(inner, ",")], "$job", ".*"))
			}
		}
	}
	for _, r := range rules(t) {
		all = append(all, r.Expr)
	}
	return all
}

// knownMetrics returns the metrics of metrics.txt and those that rules record.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(string(read(t, folder+"metrics.txt"))) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(name, "#"):
		case kind == "histogram":
			all[name+"_bucket"], all[name+"_count"], all[name+"_sum"] = true, true, true
		default:
			all[name] = true
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			all[r.Record] = true
		}
	}
	return all
}

// TestNames searches the expressions for names of Millrace's metrics, without a parser of
// PromQL. They must be known.
func TestNames(t *testing.T) {
	known := knownMetrics(t)
	used := 0
	for _, e := range expressions(t) {
		for _, name := range regexp.MustCompile(`[a-z_:]*millrace_[a-z0-9_:]+`).FindAllString(e, -1) {
			if used++; !known[name] {
				t.Errorf("%s is no metric: %s", name, e)
			}
		}
	}
	if used < 50 {
		t.Errorf("found %d names", used)
	}
}

// TestMetricsAreThere compares metrics.txt with the metrics that the code registers.
func TestMetricsAreThere(t *testing.T) {
	registered := metricsInCode(t)
	for line := range strings.Lines(string(read(t, folder+"metrics.txt"))) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "millrace_") && !registered[name] {
			t.Errorf("metrics.txt lists %s, which no code makes", name)
		}
	}
}

// TestMetricsAreDocumented looks for each metric of the code in metrics.txt and in docs.
func TestMetricsAreDocumented(t *testing.T) {
	documented := read(t, folder+"metrics.txt")
	err := filepath.WalkDir("../../../docs", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		documented = append(documented, read(t, path)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`millrace_[a-z0-9_]+`).FindAllString(string(documented), -1) {
		named[name] = true
	}
	for name := range metricsInCode(t) {
		if !named[name] && name != "millrace_" {
			t.Errorf("%s is in no document: name it where docs say what it counts, or in metrics.txt", name)
		}
	}
}

// metricsInCode finds the names of Millrace's metrics in the source: of options whose
// Namespace is "millrace", of calls of functions named describe, which add that prefix,
// and names that are written out.
func metricsInCode(t *testing.T) map[string]bool {
	t.Helper()
	made := map[string]bool{}
	err := filepath.WalkDir("../../../internal", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				if name, err := strconv.Unquote(node.Value); err == nil && strings.HasPrefix(name, "millrace_") {
					made[name] = true
				}
			case *ast.CompositeLit:
				if parts := metricName(node); parts["Namespace"] == "millrace" {
					made[strings.ReplaceAll("millrace_"+parts["Subsystem"]+"_"+parts["Name"], "__", "_")] = true
				}
			case *ast.CallExpr:
				if f, ok := node.Fun.(*ast.Ident); ok && f.Name == "describe" && len(node.Args) > 0 {
					if name, ok := node.Args[0].(*ast.BasicLit); ok {
						unquoted, _ := strconv.Unquote(name.Value)
						made["millrace_"+unquoted] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func metricName(literal *ast.CompositeLit) map[string]string {
	parts := map[string]string{}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isText := pair.Value.(*ast.BasicLit)
		if isName && isText && value.Kind == token.STRING {
			parts[key.Name], _ = strconv.Unquote(value.Value)
		}
	}
	return parts
}

// TestPrometheus parses everything with Prometheus' own parser. It is skipped if the module
// cache lacks the parser: see the target "modules" of the Makefile.
func TestPrometheus(t *testing.T) {
	program := filepath.Join(t.TempDir(), "promql")
	build := exec.Command("go", "-C", "promql", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		if bytes.Contains(output, []byte("module lookup disabled")) || bytes.Contains(output, []byte("GOPROXY=off")) {
			t.Skipf("Prometheus' parser is not there: run make modules")
		}
		t.Fatalf("%v: %s", err, output)
	}
	list, err := json.Marshal(expressions(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, folder+"rules.yaml")
	cmd.Stdin = bytes.NewReader(list)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, failed.String())
	}
	known := knownMetrics(t)
	names := strings.Fields(out.String())
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !known[name] {
			t.Errorf("%s is not in metrics.txt and not recorded", name)
		}
	}
	if len(names) < 50 {
		t.Error(fmt.Sprint("names of metrics: ", names))
	}
}
