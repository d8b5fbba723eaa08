package harness

import (
	"fmt"
	"path/filepath"
	"testing"
)

// StartReplica starts a replica in front of a server and waits until it is ready. Its
// clients have the credentials of the upstream's administrator.
func StartReplica(tb testing.TB, upstream *Server, args ...string) *Server {
	tb.Helper()
	dir, port := ShortTempDir(tb), FreePort(tb)
	all := []string{
		"replica", fmt.Sprintf("--secure-port=%d", port), "--kubeconfig=" + upstream.Kubeconfig(),
		"--write-kubeconfig=" + filepath.Join(dir, "admin.kubeconfig"), "--cert-dir=" + filepath.Join(dir, "certificates"),
	}
	all = append(all, args...)
	r := &Server{
		Process: Command(tb, all...), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: dir,
		port: port, args: args,
	}
	r.WaitReady()
	return r
}
