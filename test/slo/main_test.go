// Package slo makes faults around real servers and asks whether the reports name
// them: /metrics, /debug/millrace/ and `millrace top` must all say the same cause.
// Nothing here measures: what is asserted is who is to blame, and counts.
package slo

import (
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/test/harness"
)

// enableVariable switches on the faults: a machine that is busy anyway has some of its own,
// and then another cause is the right one.
const enableVariable = "MILLRACE_ROBUSTNESS"

// waitTimeout bounds every wait. It is generous: machines are shared.
const waitTimeout = time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

// requireFaults skips a test that makes some, unless they are wanted.
func requireFaults(t *testing.T) {
	t.Helper()
	if os.Getenv(enableVariable) == "" {
		t.Skipf("makes faults on a quiet machine: set %s=1", enableVariable)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
