package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/chromium"
	"github.com/millrace/millrace/test/support/harness"
)

// paperArgs are those of a run that is over in seconds.
func paperArgs(args ...string) []string {
	return append([]string{"papers", "a", "--scale=0.002", "--duration=30ms", "--read-paths=millrace"}, args...)
}

// TestPaperInBrowser runs a paper on this server, and opens its page on a desktop and on a
// telephone.
func TestPaperInBrowser(t *testing.T) {
	b := chromium.Open(t)
	page := filepath.Join(t.TempDir(), "page.html")
	output, code := harness.Run(t, paperArgs("-o=markdown", "--report="+page)...)
	if code != 0 || !strings.Contains(output, "| figure | published | Millrace |") {
		t.Fatalf("code %d: %s", code, output)
	}
	for _, width := range []int{1280, 360} {
		for _, theme := range []string{"light", "dark"} {
			b.SetAppearance(width, theme)
			b.Go("file://" + page)
			b.WaitUntil("document.querySelectorAll('.bars rect').length > 10")
			if b.Eval("document.documentElement.scrollWidth <= document.documentElement.clientWidth") != "true" {
				t.Errorf("the page is wider than %d pixels", width)
			}
		}
	}
	if problems := b.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %q", problems)
	}
}

// TestPaperInterrupted ends a run half way. Nothing is left of it.
func TestPaperInterrupted(t *testing.T) {
	dir := harness.ShortTempDir(t)
	t.Setenv("TMPDIR", dir)
	p := harness.Command(t, paperArgs()...)
	if err := harness.Until(time.Minute, func() error {
		if strings.Contains(p.Output(), "measuring millrace") {
			return nil
		}
		return os.ErrNotExist
	}); err != nil {
		t.Fatalf("it did not begin: %s", p.Output())
	}
	if err := p.Terminate(); err == nil || p.ExitCode() != 1 {
		t.Errorf("got %v, code %d", err, p.ExitCode())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, directories left: %v", err, left)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), dir) {
			t.Errorf("a process is left: %q", line)
		}
	}
}
