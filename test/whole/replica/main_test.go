// Package replica tests `millrace replica` in front of whole servers: what it writes,
// whom it lets read, what it passes on, and how its watches and its upstream's continue
// from each other. test/equal/differential compares its answers.
package replica

import (
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
