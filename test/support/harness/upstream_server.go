package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// upstreamVariable is the environment variable with the path of a kube-apiserver that was built
// from Kubernetes' own module.
const upstreamVariable = "MILLRACE_KUBE_APISERVER"

// Upstream returns the kube-apiserver that the environment names, or "".
func Upstream() string { return os.Getenv(upstreamVariable) }

// StartUpstream starts a kube-apiserver over the etcd of a running server, and waits until
// it is ready. The kube-apiserver has that server's credentials, and the flags that `millrace
// serve` sets by itself. It announces no endpoint.
func StartUpstream(tb testing.TB, program string, first *Server, args ...string) *Server {
	tb.Helper()
	return StartUpstreamOver(tb, program, first, first.EtcdServers(), args...)
}

// StartUpstreamOver starts a kube-apiserver as StartUpstream does, over another etcd.
// etcdServers is the flag for it.
func StartUpstreamOver(tb testing.TB, program string, first *Server, etcdServers string, args ...string) *Server {
	tb.Helper()
	port := FreePort(tb)
	all := append(UpstreamFlags(filepath.Join(first.DataDir, "pki"), ShortTempDir(tb)), etcdServers, fmt.Sprintf("--secure-port=%d", port))
	s := launchUpstream(tb, program, port, first.DataDir, append(all, args...))
	s.WaitReady()
	return s
}

// RestartAs starts a kube-apiserver in place of a `millrace serve` that has ended, and waits
// until it is ready. It has that server's port, data directory and credentials.
func (s *Server) RestartAs(program string, args ...string) *Server {
	s.tb.Helper()
	all := append(UpstreamFlags(filepath.Join(s.DataDir, "pki"), ShortTempDir(s.tb)), fmt.Sprintf("--secure-port=%d", s.port))
	next := launchUpstream(s.tb, program, s.port, s.DataDir, append(all, args...))
	next.WaitReady()
	return next
}

func launchUpstream(tb testing.TB, program string, port int, dataDir string, args []string) *Server {
	tb.Helper()
	return &Server{
		Process: startProgram(tb, program, nil, args), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: dataDir,
		launch: func() *Server { return launchUpstream(tb, program, port, dataDir, args) },
	}
}

// UpstreamFlags returns the flags of a kube-apiserver on the loopback address, without its port
// and its etcd. pki is the directory of a server's credentials, which it uses. Its other flags
// are the flags that `millrace serve` sets by itself. certDir is for the files that it writes.
func UpstreamFlags(pki, certDir string) []string {
	file := func(name string) string { return filepath.Join(pki, name) }
	return []string{
		"--bind-address=127.0.0.1", "--cert-dir=" + certDir,
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"), "--client-ca-file=" + file("ca.crt"),
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"), "--proxy-client-key-file=" + file("front-proxy-client.key"),
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth",
		"--allow-privileged", "--service-cluster-ip-range=10.96.0.0/12",
	}
}

// KnownGates returns a flag with only the feature gates that a program knows. An unknown gate
// would end the program.
func KnownGates(tb testing.TB, program, flag string) string {
	tb.Helper()
	help, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil {
		tb.Fatalf("ask %s for its flags: %v\n%s", program, err, help)
	}
	var listed []string
	for _, match := range gateInHelp.FindAllSubmatch(help, -1) {
		listed = append(listed, string(match[1]))
	}
	name, gates, _ := strings.Cut(flag, "=")
	var known []string
	for gate := range strings.SplitSeq(gates, ",") {
		if gateName, _, _ := strings.Cut(gate, "="); slices.Contains(listed, gateName) {
			known = append(known, gate)
		}
	}
	return name + "=" + strings.Join(known, ",")
}

// gateInHelp matches a feature gate in the help of Kubernetes' programs.
var gateInHelp = regexp.MustCompile(`(\w+)=true\|false`)
