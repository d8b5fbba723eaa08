package verify_test

import (
	"bytes"
	"context"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
)

// verified runs the verifier against a fake server for a moment, and for longer ones until
// there is enough: a busy machine sends few requests in a moment.
func verified(t *testing.T, fault string, enough func(*verify.Report) bool) (report *verify.Report) {
	t.Helper()
	for duration := 1500 * time.Millisecond; duration < 30*time.Second; duration *= 2 {
		var err error
		report, err = verify.Run(context.Background(), verify.Config{
			Servers: []*rest.Config{newFakeAPI(t, fault)}, Duration: duration, Writers: 3, Readers: 4, Watchers: 6, Rate: 200, Keys: 6, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if enough(report) {
			break
		}
	}
	return report
}

func told(t *testing.T, report *verify.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestRightServer finds no violation at a server that keeps all promises, and sees most of
// the states of the scorecard.
func TestRightServer(t *testing.T) {
	t.Parallel()
	report := verified(t, "", func(r *verify.Report) bool {
		return r.Violations() > 0 || !slices.ContainsFunc(r.Checks, func(c verify.Check) bool { return c.Checked == 0 })
	})
	if report.Violations() > 0 {
		t.Errorf("violations at a right server:\n%s", told(t, report))
	}
	for _, check := range report.Checks {
		if check.Checked == 0 {
			t.Errorf("%q was not checked", check.Promise)
		}
	}
}

// TestStory checks that a history without an order is told in few operations, with what the
// read should have seen, and that the page has the same story and loads nothing.
func TestStory(t *testing.T) {
	t.Parallel()
	report := verified(t, "stale", func(r *verify.Report) bool { return len(r.ViolationsOf(verify.Linearizable, "")) > 0 })
	found := report.ViolationsOf(verify.Linearizable, "")
	if len(found) == 0 {
		t.Fatalf("stale reads have an order:\n%s", told(t, report))
	}
	for _, v := range found {
		if n := len(v.Story); n < 2 || n > 8 || !slices.ContainsFunc(v.Story, func(s verify.Step) bool { return s.Should != "" }) {
			t.Errorf("a story of %d operations: %s: %+v", n, v.Summary, v.Story)
		}
	}
	name := filepath.Join(t.TempDir(), "report.html")
	if err := report.WritePage(name); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{found[0].Summary, "right would be", "--seed 1", report.Coverage.Rows[0].Request} {
		if !strings.Contains(html.UnescapeString(string(page)), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(page), "src=") || strings.Contains(string(page), "<link") {
		t.Error("the page loads something")
	}
}

// TestFaultsAreFound has the verifier find each way to break a promise, and name the promise.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for fault, promise := range map[string]verify.Promise{
		"create over":    verify.Conditional,
		"lost update":    verify.Conditional,
		"lost write":     verify.States,
		"stale":          verify.Consistent,
		"older":          verify.NotOlder,
		"future":         verify.NotOlder,
		"not exact":      verify.Exact,
		"pages":          verify.Pages,
		"limit":          verify.Pages,
		"remaining":      verify.Pages,
		"list lacks":     verify.States,
		"stale watch":    verify.Fresh,
		"no end":         verify.Watching,
		"bookmark ahead": verify.Watching,
		"event dropped":  verify.Watching,
		"event doubled":  verify.Watching,
		"wrong type":     verify.Watching,
	} {
		t.Run(strings.ReplaceAll(fault, " ", "-"), func(t *testing.T) {
			t.Parallel()
			found := func(r *verify.Report) bool { return len(r.ViolationsOf(promise, "")) > 0 }
			report := verified(t, fault, found)
			if !found(report) {
				t.Errorf("the fault was not found as one of %q:\n%s", promise, told(t, report))
			}
		})
	}
}
