package verify_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/verify"
)

// verified runs the verifier against fake servers for a moment.
func verified(t *testing.T, servers ...*rest.Config) *verify.Report {
	t.Helper()
	report, err := verify.Run(context.Background(), verify.Config{
		Servers: servers, Duration: 1500 * time.Millisecond, Writers: 3, Readers: 4, Watchers: 6, Rate: 200, Keys: 6, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
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
	report := verified(t, newFakeAPI(t, ""))
	if report.Violations() > 0 {
		t.Errorf("violations at a right server:\n%s", told(t, report))
	}
	for _, check := range report.Checks {
		if check.Checked == 0 {
			t.Errorf("%q was not checked", check.Promise)
		}
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
			report := verified(t, newFakeAPI(t, fault))
			i := slices.IndexFunc(report.Checks, func(c verify.Check) bool { return c.Promise == promise })
			if len(report.Checks[i].Violations) == 0 {
				t.Errorf("the fault was not found as one of %q:\n%s", promise, told(t, report))
			}
		})
	}
}
