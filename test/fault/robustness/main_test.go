// Package robustness tests millrace under faults that last too long for
// everyday tests. `make robustness` runs it, `go test` skips it.
package robustness

import (
	"os"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// variable is the environment variable that switches the tests on.
const variable = "MILLRACE_ROBUSTNESS"

func TestMain(m *testing.M) { harness.Main(m) }

func needSwitch(t *testing.T) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("takes minutes: %s=1 or make robustness runs it", variable)
	}
}
