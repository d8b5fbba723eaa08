// Package slo causes faults around real servers and checks that the reports name
// them. /metrics, /debug/millrace/ and `millrace-tools top` must all report the same cause.
// The tests check causes and counts. They do not check durations.
package slo

import (
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// enableVariable is the environment variable that enables tests with faults. They are
// off by default: on a busy machine a lack of CPU may be the true cause of a delay.
const enableVariable = "MILLRACE_ROBUSTNESS"

// waitTimeout bounds every wait. It is long, because machines are shared.
const waitTimeout = time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

// requireFaults skips the test unless tests with faults are enabled.
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
