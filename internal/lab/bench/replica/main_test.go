package replica

import (
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand(), append([]string{"replica"}, args...)...)
}
