//go:build mutations

// Package mutations breaks the server on purpose, in every way that package mutation has, and
// checks that `millrace-tools verify` finds it, and that it finds nothing at a server that is whole.
// Only the build tag mutations has such servers: see `make verify-mutations`.
package mutations

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/mutation"
	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestMutations is not parallel: a mutation is chosen by the environment.
func TestMutations(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		report := verified(t, start(t, ""), whole, nil)
		if report.Violations() > 0 {
			_ = report.Write(t.Output())
			t.Errorf("%d violations at a server that is whole", report.Violations())
		}
	})
	for _, row := range mutation.Table() {
		if row.Fault != "" {
			continue // test/fault/injection has it
		}
		t.Run(row.Name, func(t *testing.T) {
			server := start(t, row.Name)
			arm := func(context.Context) { server.Signal(mutation.Arm) }
			var report *verify.Report
			for _, duration := range durations() {
				report = verified(t, server, duration, arm)
				if found := report.ViolationsOf(verify.Promise(row.Promise), row.Guarantee); len(found) > 0 {
					t.Logf("%s: %d violations in %.0f s, as in %q: %s", row.Name, report.Violations(), report.Seconds, row.Promise, found[0].Summary)
					return
				}
			}
			_ = report.Write(t.Output())
			t.Errorf("not found as one of %q: %s", row.Promise, row.Breaks)
		})
	}
}

// whole is how long the server that is whole is verified.
const whole = 20 * time.Second

// durations are how long a mutation is looked for: a second time if it was not found, and for
// less than a minute in all. A slow machine has fewer events.
func durations() []time.Duration { return []time.Duration{10 * time.Second, 45 * time.Second} }

// start starts a server with a mutation, which is still to be armed.
func start(t *testing.T, name string) *harness.Server {
	t.Helper()
	t.Setenv(mutation.Variable, name)
	return harness.Start(t, harness.ShortTempDir(t))
}

// verified verifies a server. meanwhile runs when the clients begin: what they need is there by
// then.
func verified(t *testing.T, s *harness.Server, duration time.Duration, meanwhile func(context.Context)) *verify.Report {
	t.Helper()
	report, err := verify.Run(t.Context(), verify.Config{
		Servers: []*rest.Config{s.Config()}, Duration: duration, Writers: 4, Readers: 4, Watchers: 16, Rate: 100, Keys: 12, Seed: 1,
		Timeout:   5 * time.Second, // a server that cannot read answers after 10 s
		Meanwhile: meanwhile,
	})
	if report == nil {
		t.Fatal(err)
	}
	return report
}
