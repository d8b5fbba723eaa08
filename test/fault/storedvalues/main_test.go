// Package storedvalues writes odd values into etcd, under the keys of built-in objects, custom
// resources, definitions, and all that a server configures itself by. It checks that the
// server and a replica live, that all other objects are answered as before, and that the odd
// ones are answered as by the stock server over the same etcd, or better.
//
// MILLRACE_SEED chooses the values, and MILLRACE_VALUES_DURATION how long each test goes on.
package storedvalues

import (
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// durationVariable is the environment variable with the duration of a test.
const durationVariable = "MILLRACE_VALUES_DURATION"

// duration is how long a test writes values, without its starts of servers.
func duration(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(durationVariable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", durationVariable, err)
	}
	return d
}
