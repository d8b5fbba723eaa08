package papers

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/benchtest"
)

const (
	root = "../../../"
	// guide is the document that has what the commands print of the saved reports.
	guide = root + "docs/guides/papers.md"
	// Marks around a part of it that a command prints.
	printedMark = "<!-- Printed by millrace-lab papers "
	markEnd     = " -->\n"
	endMark     = "<!-- End of what is printed. -->"
)

// TestGuide checks that docs/guides/papers.md has what the commands print that it names: one for
// each paper.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), printedMark)
	if len(parts)-1 != len(all()) {
		t.Fatalf("the page has %d parts that are printed", len(parts)-1)
	}
	written := parts[0]
	for i, part := range parts[1:] {
		args, rest, ok := strings.Cut(part, markEnd)
		has, after, ended := strings.Cut(rest, endMark)
		if !ok || !ended || !strings.HasPrefix(args, all()[i].Name+" ") {
			t.Fatalf("a mark of the page has no end, or there is another paper's: %.100q", part)
		}
		// A report with failures is printed like any other.
		want, _, err := run(t, append(strings.Fields(strings.ReplaceAll(args, "docs/", root+"docs/")), "-o=markdown")...)
		if want == "" {
			t.Fatalf("millrace-lab papers %s: %v", args, err)
		}
		if want = "\n" + want + "\n"; has != want && !benchtest.Updates() {
			t.Errorf("the page has other figures than millrace-lab papers %s: make papers", args)
		}
		written += printedMark + args + markEnd + want + endMark + after
	}
	if benchtest.Updates() {
		if err := os.WriteFile(guide, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
