package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSubcommands checks which subcommands users see. The others are run by
// comparisons only.
func TestSubcommands(t *testing.T) {
	var visible, hidden []string
	for _, cmd := range NewCommand().Commands() {
		if cmd.Hidden {
			hidden = append(hidden, cmd.Name())
		} else {
			visible = append(visible, cmd.Name())
		}
	}
	slices.Sort(visible)
	slices.Sort(hidden)
	if want := []string{"crd", "discovery", "list", "provision", "quiet", "replica", "servers", "storm", "tree", "watch"}; !slices.Equal(visible, want) {
		t.Errorf("visible subcommands are %q, want %q", visible, want)
	}
	if want := []string{"floor-server", "proxy"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden subcommands are %q, want %q", hidden, want)
	}
}

// TestAt has --at at the benches that can measure a server that exists, and at no other.
func TestAt(t *testing.T) {
	var with []string
	for _, cmd := range NewCommand().Commands() {
		at, context := cmd.Flags().Lookup("at"), cmd.Flags().Lookup("at-context")
		if (at == nil) != (context == nil) {
			t.Errorf("%s has only one of --at and --at-context", cmd.Name())
		}
		if at != nil {
			with = append(with, cmd.Name())
		}
	}
	slices.Sort(with)
	if want := []string{"crd", "discovery", "list", "servers", "watch"}; !slices.Equal(with, want) {
		t.Errorf("got %q, want %q", with, want)
	}
}

// TestSavedFailures prints saved reports: with something that was not measured, the exit code
// is that of the run, and with all measured there is no error.
func TestSavedFailures(t *testing.T) {
	const servers, results = `{"servers":[{"name":"x","results":[{"workload":"w"%s}]}]}`, `{"results":[{"setup":"direct"%s}]}`
	reports := map[string]string{
		"list": servers, "watch": servers, "crd": `{"servers":[{"name":"x"%s}]}`, "discovery": servers,
		"replica": results, "quiet": results, "tree": results, "servers": results, "storm": results, "provision": results,
	}
	for _, cmd := range NewCommand().Commands() {
		if cmd.Hidden {
			continue
		}
		for broken, want := range map[string]string{"": "", `,"error":"it broke"`: "1 workload failed, see above"} {
			file := filepath.Join(t.TempDir(), "report.json")
			if err := os.WriteFile(file, fmt.Appendf(nil, reports[cmd.Name()], broken), 0o600); err != nil {
				t.Fatal(err)
			}
			root := NewCommand()
			root.SetArgs([]string{cmd.Name(), "--from=" + file})
			root.SetOut(io.Discard)
			if got := fmt.Sprint(cmp.Or(root.Execute(), errors.New(""))); got != want {
				t.Errorf("%s of %q: got %q, want %q", cmd.Name(), broken, got, want)
			}
		}
	}
}
