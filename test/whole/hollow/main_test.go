// Package hollow tests `millrace-lab hollow` against a whole server: what its nodes write, what
// the server's audit log has of their reads, and that nothing is left of them.
package hollow

import (
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
