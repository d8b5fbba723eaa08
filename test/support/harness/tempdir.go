package harness

import (
	"os"
	"strconv"
	"testing"
)

// tempPrefix is the first part of the names of temporary directories. The id of the test process
// follows.
const tempPrefix = "mr"

// ShortTempDir makes a temporary directory whose name leaves room for unix sockets.
func ShortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(tempRoot(), tempPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		tb.Fatalf("make temporary directory: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
