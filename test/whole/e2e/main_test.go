// Package e2e tests millrace as its users run it: as processes, with real clients. It
// covers what concerns a server as a whole, such as restarts, outages and shutdown.
// Comparisons with the stock server are in package differential.
package e2e

import (
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
