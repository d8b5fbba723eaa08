package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

// printedBy begins the files of docs/bench/tables that commands print of a saved report. The
// arguments and a backtick follow it.
const printedBy = "Printed by `millrace-lab bench "

// TestTables checks that docs/bench has what the commands print of its reports. The first line of each
// file in docs/bench/tables names its command. Some reports also have a plot beside them. Package
// papers checks its own reports.
func TestTables(t *testing.T) {
	t.Chdir("../../..")
	tables, err := filepath.Glob("docs/bench/tables/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, file := range tables {
		has, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(has), "\n")
		command, ok := strings.CutPrefix(first, printedBy)
		if !ok {
			continue // make attacks writes it
		}
		command, _, _ = strings.Cut(command, "`")
		args := strings.Fields(command)
		checkFile(t, file, first+"\n\n"+execute(t, args...))
		report := "docs/bench/" + strings.TrimSuffix(filepath.Base(file), ".md")
		printed = append(printed, report+".json")
		if plot := report + ".svg"; exists(plot) {
			checkFile(t, plot, execute(t, append(args, "-o=svg")...))
		}
	}
	reports, err := filepath.Glob("docs/bench/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, report := range reports {
		if !slices.Contains(printed, report) && !strings.HasPrefix(filepath.Base(report), "paper-") {
			t.Errorf("%s has no file of its name in docs/bench/tables: make one of a first line like those of the others, and make tables", report)
		}
	}
}

// execute returns what a subcommand prints. It ignores the error of a report that has failures.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	cmd := NewCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	if err := cmd.Execute(); out.Len() == 0 {
		t.Fatalf("millrace-lab bench %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// checkFile compares a file with a text. The flag -update rewrites the file.
func checkFile(t *testing.T, file, want string) {
	t.Helper()
	if benchtest.Updates() {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := os.ReadFile(file); err != nil || string(has) != want {
		t.Errorf("%s is not what its command prints (%v): make tables", file, err)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
