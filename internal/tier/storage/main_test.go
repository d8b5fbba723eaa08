package storage_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors. They spend most of
// their time waiting for etcd, for keys that expire and for bookmarks.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}
