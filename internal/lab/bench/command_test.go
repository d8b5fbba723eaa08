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

// TestSubcommands checks which subcommands users see. Only comparisons run the hidden ones.
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

// TestAt checks that exactly the subcommands that can measure a server that exists have --at.
func TestAt(t *testing.T) {
	var names []string
	for _, cmd := range NewCommand().Commands() {
		at, context := cmd.Flags().Lookup("at"), cmd.Flags().Lookup("at-context")
		if (at == nil) != (context == nil) {
			t.Errorf("%s has only one of --at and --at-context", cmd.Name())
		}
		if at != nil {
			names = append(names, cmd.Name())
		}
	}
	slices.Sort(names)
	if want := []string{"crd", "discovery", "list", "servers", "watch"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestSavedFailures prints saved reports. A part that was not measured is an error, as in the run that
// saved the report.
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
