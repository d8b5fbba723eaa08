package papers

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand("test"), append([]string{"papers"}, args...)...)
}

// quickRuns returns the flags, by paper, of runs that take a second or two.
func quickRuns() map[string][]string {
	return map[string][]string{
		"a": nil,
		"b": {"--only=events"}, // what it provisions needs Kubernetes' scheduler: test/whole/hollow has that
		"c": nil,
		"d": {"--only=discovery-192,definitions-780"},
		"e": nil,
	}
}

func TestRun(t *testing.T) {
	for _, p := range allPapers() {
		t.Run(p.Name, func(t *testing.T) {
			dir := t.TempDir()
			page, saved := filepath.Join(dir, "page.html"), filepath.Join(dir, "report.json")
			args := append([]string{p.Name, "--scale=0.001", "--duration=20ms", "--read-paths=millrace", "--report=" + page, "-o=json"}, quickRuns()[p.Name]...)
			out, progress, err := run(t, args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, progress)
			}
			var got Report
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if p.Name == "a" && strings.Contains(progress, "the floor") {
				t.Errorf("the floor, which no paper shows, was measured:\n%s", progress)
			}
			if got.Paper != p.Name || len(got.Sections) == 0 || got.Millrace != "test" {
				t.Errorf("got %+v", got)
			}
			for _, s := range got.Sections {
				if !slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Values["millrace"] > 0 }) {
					t.Errorf("section %q has no figure of this run", s.Title)
				}
			}
			if err := os.WriteFile(saved, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			shown, _, err := run(t, p.Name, "--from="+saved, "-o=markdown")
			if err != nil || !strings.Contains(shown, "| figure | published | Millrace |") {
				t.Errorf("got %v:\n%s", err, shown)
			}
			html, err := os.ReadFile(page)
			if err != nil || !strings.Contains(string(html), p.Title) {
				t.Errorf("got %v:\n%s", err, html)
			}
		})
	}
}

// TestData checks that sections and rows of a paper name only its own steps, and that each path is
// well formed.
func TestData(t *testing.T) {
	path := regexp.MustCompile(`^[a-zA-Z0-9]+(\[([a-zA-Z]+=[a-z0-9@-]+,?)*\])?(\.[a-zA-Z0-9]+(\[([a-zA-Z]+=[a-z0-9@-]+,?)*\])?)*$`)
	for _, p := range allPapers() {
		for _, s := range p.Sections {
			for _, r := range s.Rows {
				known := slices.ContainsFunc(p.Steps, func(of step) bool { return of.Name == cmp.Or(r.Step, s.Step) })
				if !known || len(r.Paths) == 0 {
					t.Errorf("paper %s, %s, %s: step %q, %d paths", p.Name, s.Title, r.Name, cmp.Or(r.Step, s.Step), len(r.Paths))
				}
				for _, of := range append(slices.Clone(r.Paths), cmp.Or(r.Subtract, "x"), cmp.Or(s.Answer, "x")) {
					if !path.MatchString(of) {
						t.Errorf("paper %s, %s, %s: path %q", p.Name, s.Title, r.Name, of)
					}
				}
			}
		}
	}
	if p, err := loadPaper("x", size{scale: 1}); err == nil {
		t.Errorf("there is a paper %v", p)
	}
}
