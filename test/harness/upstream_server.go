package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// upstreamVariable names a kube-apiserver that was built from Kubernetes' own module.
const upstreamVariable = "MILLRACE_KUBE_APISERVER"

// Upstream returns the kube-apiserver that the environment names, or "".
func Upstream() string { return os.Getenv(upstreamVariable) }

// StartUpstream starts a kube-apiserver over the etcd of a running server, and waits until
// it is ready. It has that server's credentials, and the flags that `millrace serve` sets
// by itself. It announces no endpoint.
func StartUpstream(tb testing.TB, program string, first *Server, args ...string) *Server {
	tb.Helper()
	pki := filepath.Join(first.DataDir, "pki")
	port := FreePort(tb)
	all := append([]string{
		first.EtcdServers(),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + ShortTempDir(tb),
		"--tls-cert-file=" + filepath.Join(pki, "apiserver.crt"), "--tls-private-key-file=" + filepath.Join(pki, "apiserver.key"),
		"--client-ca-file=" + filepath.Join(pki, "ca.crt"),
		"--requestheader-client-ca-file=" + filepath.Join(pki, "front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file=" + filepath.Join(pki, "front-proxy-client.key"),
		"--service-account-key-file=" + filepath.Join(pki, "sa.pub"), "--service-account-signing-key-file=" + filepath.Join(pki, "sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth",
		"--allow-privileged", "--service-cluster-ip-range=10.96.0.0/12",
	}, args...)
	s := &Server{
		Process: startProgram(tb, program, nil, all), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: first.DataDir,
		port: port, args: args,
	}
	s.WaitReady()
	return s
}
