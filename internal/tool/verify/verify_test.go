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

// runVerify verifies a fake server for a moment, and then for longer times until enough returns
// true. A busy machine sends few requests in a moment.
func runVerify(t *testing.T, fault string, enough func(*verify.Report) bool) (report *verify.Report) {
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

// reportText returns the report for a person.
func reportText(t *testing.T, report *verify.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestRightServer checks that a server which keeps all promises has no violation, and that each
// promise was checked.
func TestRightServer(t *testing.T) {
	t.Parallel()
	report := runVerify(t, "", func(r *verify.Report) bool {
		return r.Violations() > 0 || !slices.ContainsFunc(r.Checks, func(c verify.Check) bool { return c.Checked == 0 })
	})
	if report.Violations() > 0 {
		t.Errorf("violations at a right server:\n%s", reportText(t, report))
	}
	for _, check := range report.Checks {
		if check.Checked == 0 {
			t.Errorf("%q was not checked", check.Promise)
		}
	}
}

// TestStory checks that the story of a history without an order has few operations, and says
// what the read should have shown. It also checks that the page has the same story and loads
// nothing.
func TestStory(t *testing.T) {
	t.Parallel()
	report := runVerify(t, "stale", func(r *verify.Report) bool { return len(r.ViolationsOf(verify.Linearizable, "")) > 0 })
	found := report.ViolationsOf(verify.Linearizable, "")
	if len(found) == 0 {
		t.Fatalf("stale reads have an order:\n%s", reportText(t, report))
	}
	for _, v := range found {
		if n := len(v.Story); n < 2 || n > 8 || !slices.ContainsFunc(v.Story, func(s verify.Step) bool { return s.Want != "" }) {
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

// TestFaultsAreFound checks that each fault is found as a violation of the promise that it breaks.
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
			report := runVerify(t, fault, found)
			if !found(report) {
				t.Errorf("the fault was not found as one of %q:\n%s", promise, reportText(t, report))
			}
		})
	}
}
