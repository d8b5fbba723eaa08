package plantedfault_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/plantedfault"
)

// TestApply applies edits to a file, and refuses those whose text is not there exactly once.
func TestApply(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two three"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		edits []plantedfault.Edit
		want  string
	}{
		"one":        {[]plantedfault.Edit{{"a.go", "one", "1"}}, "1 two two three"},
		"another":    {[]plantedfault.Edit{{"a.go", "one", "1"}, {"a.go", "three", ""}}, "1 two two "},
		"absent":     {[]plantedfault.Edit{{"a.go", "four", "4"}}, ""},
		"twice":      {[]plantedfault.Edit{{"a.go", "two", "2"}}, ""},
		"no longer":  {[]plantedfault.Edit{{"a.go", "one", "1"}, {"a.go", "one", "1"}}, ""},
		"empty text": {[]plantedfault.Edit{{"a.go", "", "x"}}, ""},
	} {
		f := plantedfault.Fault{Name: name, Edits: test.edits}
		changed, err := f.Apply(root)
		if test.want == "" && !errors.Is(err, plantedfault.ErrNotApplicable) || test.want != "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if changed["a.go"] != test.want {
			t.Errorf("%s: %q, want %q", name, changed["a.go"], test.want)
		}
	}
	f := plantedfault.Fault{Edits: []plantedfault.Edit{{"absent.go", "a", "b"}}}
	if _, err := f.Apply(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is absent: %v", err)
	}
}

// TestBuild plants a fault in this package, and has a test of the binary find it. The sources stay
// as they are.
func TestBuild(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds this package twice")
	}
	const pkg = "./test/support/plantedfault"
	broken := plantedfault.Fault{Name: "first-text-stays", Edits: []plantedfault.Edit{{
		"test/support/plantedfault/plantedfault.go", "strings.Replace(text, e.Old, e.New, 1)", "strings.Replace(text, e.New, e.Old, 0)",
	}}}
	for _, f := range []*plantedfault.Fault{{}, &broken} {
		binary, err := f.BuildTest(t.Context(), t.TempDir(), pkg)
		if err != nil {
			t.Fatal(err)
		}
		output, err := exec.CommandContext(t.Context(), binary, "-test.run=^TestApply$").CombinedOutput()
		if failed := err != nil && strings.Contains(string(output), "FAIL: TestApply"); failed != (f.Name != "") {
			t.Errorf("%q: %v: %s", f.Name, err, output)
		}
	}
}
