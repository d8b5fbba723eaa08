//go:build mutations

// Package mutations breaks the server on purpose, in every way that package mutation has, and
// checks that `millrace verify` finds it, and that it finds nothing at a server that is whole.
// Only the build tag mutations has such servers: see `make verify-mutations`.
package mutations

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/mutation"
	"github.com/millrace/millrace/internal/verify"
	"github.com/millrace/millrace/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestMutations is not parallel: a mutation is chosen by the environment.
func TestMutations(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		report := verified(t, "")
		if report.Violations() > 0 {
			_ = report.Write(t.Output())
			t.Errorf("%d violations at a server that is whole", report.Violations())
		}
	})
	for _, row := range mutation.Table() {
		t.Run(row.Name, func(t *testing.T) {
			report := verified(t, row.Name)
			v := find(report, &row)
			if v == nil {
				_ = report.Write(t.Output())
				t.Fatalf("not found as one of %q: %s", row.Promise, row.Breaks)
			}
			t.Logf("%s: %d violations in %.0f s, as in %q: %s", row.Name, report.Violations(), report.Seconds, v.Promise, v.Summary)
			if report.Seconds > atMost.Seconds() {
				t.Errorf("found after %.0f s, which is more than %s", report.Seconds, atMost)
			}
		})
	}
}

// find returns a violation that names the mutation, nil if there is none.
func find(report *verify.Report, row *mutation.Row) *verify.Violation {
	for i := range report.Checks {
		check := &report.Checks[i]
		if string(check.Promise) != row.Promise {
			continue
		}
		if n := slices.IndexFunc(check.Violations, func(v verify.Violation) bool { return strings.HasPrefix(v.Summary, row.Guarantee) }); n >= 0 {
			return &check.Violations[n]
		}
	}
	return nil
}

// duration is how long a server is written to and read. MILLRACE_VERIFY_DURATION sets another.
const duration = 10 * time.Second

// atMost is how long it may take to find a mutation.
const atMost = time.Minute

// verified verifies a server with a mutation.
func verified(t *testing.T, name string) *verify.Report {
	t.Helper()
	t.Setenv(mutation.Variable, name)
	s := harness.Start(t, harness.ShortTempDir(t))
	if name != "" {
		s.Signal(mutation.Arm)
	}
	length, err := time.ParseDuration(cmp.Or(os.Getenv("MILLRACE_VERIFY_DURATION"), duration.String()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := verify.Run(t.Context(), verify.Config{
		Servers: []*rest.Config{s.Config()}, Duration: length, Writers: 4, Readers: 4, Watchers: 16, Rate: 100, Keys: 12, Seed: 1,
	})
	if report == nil {
		t.Fatal(err)
	}
	return report
}
