package harness

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// StartReplica starts a replica in front of a server and waits until it is ready. Its
// clients have the credentials of the upstream's administrator.
func StartReplica(tb testing.TB, upstream *Server, args ...string) *Server {
	tb.Helper()
	dir, port := ShortTempDir(tb), FreePort(tb)
	all := []string{
		"replica", fmt.Sprintf("--secure-port=%d", port), "--kubeconfig=" + KubeconfigFor(tb, upstream, dir),
		"--write-kubeconfig=" + filepath.Join(dir, "admin.kubeconfig"), "--cert-dir=" + filepath.Join(dir, "certificates"),
	}
	r := launchReplica(tb, port, dir, append(all, args...))
	r.WaitReady()
	return r
}

func launchReplica(tb testing.TB, port int, dir string, args []string) *Server {
	tb.Helper()
	return &Server{
		Process: Command(tb, args...), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: dir,
		launch: func() *Server { return launchReplica(tb, port, dir, args) },
	}
}

// KubeconfigFor writes a kubeconfig of the administrator to a directory, and returns its file
// name. It leads to s.URL, also if another server has made the credentials.
func KubeconfigFor(tb testing.TB, s *Server, dir string) string {
	tb.Helper()
	config, err := clientcmd.LoadFromFile(s.Kubeconfig())
	if err != nil {
		tb.Fatalf("read kubeconfig: %v", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = s.URL
	}
	file := filepath.Join(dir, "upstream.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		tb.Fatalf("write kubeconfig: %v", err)
	}
	return file
}
