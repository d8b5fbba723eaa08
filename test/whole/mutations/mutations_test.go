// Package mutations breaks the server on purpose, in one way after the other, and checks that
// `millrace-tools verify` finds each, and that it finds nothing at a server that is whole.
//
// CI checks that each mutation still applies to the sources. `make verify-mutations` does the rest.
package mutations

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
	"github.com/millrace/millrace/test/support/plantedfault"
	"github.com/millrace/millrace/test/support/plantedfault/armed"
)

func TestMain(m *testing.M) { harness.Main(m) }

// row is a mutation, and what has to find it.
type row struct {
	plantedfault.Fault
	// promise is the promise whose check must find it, and guarantee begins the summary of such a
	// violation: a watch is checked for several guarantees. "" stands for any.
	promise   verify.Promise
	guarantee string
}

// TestFaultsApply checks that each mutation can be planted.
func TestFaultsApply(t *testing.T) {
	t.Parallel()
	var faults []plantedfault.Fault
	for _, r := range rows() {
		faults = append(faults, r.Fault)
	}
	plantedfault.CheckApply(t, faults...)
}

// TestMutations is not parallel: the environment chooses the program.
func TestMutations(t *testing.T) {
	plantedfault.SkipUnlessAsked(t, "verify-mutations")
	t.Run("none", func(t *testing.T) {
		report := verified(t, start(t, &plantedfault.Fault{}), whole, nil)
		if report.Violations() > 0 {
			_ = report.Write(t.Output())
			t.Errorf("%d violations at a server that is whole", report.Violations())
		}
	})
	for _, r := range rows() {
		t.Run(r.Name, func(t *testing.T) {
			server := start(t, &r.Fault)
			arm := func(context.Context) { server.Signal(armed.Signal) }
			var report *verify.Report
			for _, duration := range durations() {
				report = verified(t, server, duration, arm)
				if found := report.ViolationsOf(r.promise, r.guarantee); len(found) > 0 {
					t.Logf("%s: %d violations in %.0f s, as in %q: %s", r.Name, report.Violations(), report.Seconds, r.promise, found[0].Summary)
					return
				}
			}
			_ = report.Write(t.Output())
			t.Errorf("not found as one of %q: %s", r.promise, r.Breaks)
		})
	}
}

// whole is how long the server that is whole is verified.
const whole = 20 * time.Second

// durations are how long a mutation is looked for: a second time if it was not found, and for
// less than a minute in all. A slow machine has fewer events.
func durations() []time.Duration { return []time.Duration{10 * time.Second, 45 * time.Second} }

// start builds and starts a server with a mutation, which is still to be armed.
func start(t *testing.T, f *plantedfault.Fault) *harness.Server {
	t.Helper()
	program, err := f.BuildProgram(t.Context(), t.TempDir(), "./cmd/millrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(harness.ProgramVariable, program)
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
