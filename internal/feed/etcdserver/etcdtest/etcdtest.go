// Package etcdtest starts an etcd in the process of a test.
package etcdtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/feed/etcdserver"
)

// Config returns directories for an etcd, which are removed with the test. Paths of sockets
// must be short.
func Config(t testing.TB) etcdserver.Config {
	t.Helper()
	sockets, err := os.MkdirTemp("", "mr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	return etcdserver.Config{DataDir: filepath.Join(t.TempDir(), "etcd"), SocketDir: filepath.Join(sockets, "s")}
}

// Open starts an etcd. The caller closes it.
func Open(t testing.TB, cfg etcdserver.Config) *etcdserver.Etcd {
	t.Helper()
	e, err := etcdserver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
