package papers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

const (
	root = "../../../"
	// tables is the document that has what the commands print of the saved reports.
	tables = root + "docs/bench/tables/papers.md"
	// tablesHead is its first line.
	tablesHead = "What `make papers` writes of the saved reports of `millrace-lab papers`. [guides/papers.md](../../guides/papers.md) says what the experiments are and what came out.\n"
)

// TestTables checks that docs/bench/tables/papers.md has what the command of each paper prints
// of its saved report. -update rewrites it.
func TestTables(t *testing.T) {
	var want strings.Builder
	want.WriteString(tablesHead)
	for _, p := range allPapers() {
		report := "docs/bench/paper-" + p.Name + ".json"
		// A report with failures is printed like any other.
		printed, _, err := run(t, p.Name, "--from="+root+report, "-o=markdown")
		if printed == "" {
			t.Fatalf("millrace-lab papers %s --from=%s: %v", p.Name, report, err)
		}
		fmt.Fprintf(&want, "\n## Paper %s\n\n`millrace-lab papers %s --from=%s -o=markdown` prints:\n\n%s", strings.ToUpper(p.Name), p.Name, report, printed)
	}
	if benchtest.Updates() {
		if err := os.WriteFile(tables, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	has, err := os.ReadFile(tables)
	if err != nil || string(has) != want.String() {
		t.Errorf("%s has other figures than the saved reports (%v): make papers", tables, err)
	}
}
