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

// variable switches on what takes more than a minute.
const variable = "MILLRACE_ROBUSTNESS"

// patience bounds every wait. It is generous: machines are shared.
const patience = time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

func long() bool { return os.Getenv(variable) != "" }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
