package testbed

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// readyPoll is the time between two probes whether a child is ready.
const readyPoll = 50 * time.Millisecond

// serverConfig says how to run a server. All fields are required, except http1.
type serverConfig struct {
	executable string
	name       string   // in errors
	args       []string // the command line
	port       int
	logFile    string
	kubeconfig string // of the administrator, which may not exist before the server is ready
	http1      bool
	timeout    time.Duration // from the start of the process to readiness
}

// Server is a child that serves, with its address and credentials. Child is nil and Startup 0 for the
// server of --at. A proxy and a floor server have only Child and Target.
type Server struct {
	*Child
	Target     *Target
	Kubeconfig string        // of the administrator
	context    string        // of Kubeconfig; empty: its current context
	Startup    time.Duration // from the start of the process to its readiness
	remote     *Meter        // of the server of --at
}

// Meter returns a meter of the server's CPU and memory.
func (s *Server) Meter() *Meter {
	if s.Child == nil {
		return s.remote
	}
	return NewMeter(s.PID())
}

// stockArgs returns the flags of a kube-apiserver that uses the keys and certificates in pki,
// which "serve" has made. Otherwise the server runs with its defaults.
func stockArgs(pki string) []string {
	file := func(name string) string { return filepath.Join(pki, name) }
	return []string{
		"--bind-address=127.0.0.1", "--cert-dir=" + pki,
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"), "--client-ca-file=" + file("ca.crt"),
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + file("front-proxy-client.crt"), "--proxy-client-key-file=" + file("front-proxy-client.key"),
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range=10.96.0.0/12",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth", "--allow-privileged",
	}
}

// startServer starts a server, and returns when it is ready. The caller must call Stop.
func startServer(ctx context.Context, cfg serverConfig) (*Server, error) {
	start := time.Now()
	process, err := StartChild(ChildConfig{Path: cfg.executable, Args: cfg.args, LogFile: cfg.logFile})
	if err != nil {
		return nil, err
	}
	s := &Server{Child: process, Kubeconfig: cfg.kubeconfig}
	if err := s.poll(ctx, cfg.timeout, func(ctx context.Context) error { return s.probe(ctx, cfg) }); err != nil {
		s.Stop(ctx)
		return nil, fmt.Errorf("start %s server: %w", cfg.name, err)
	}
	s.Startup = time.Since(start)
	return s, nil
}

// probe sets Target, and returns nil if the server is ready. It loads the administrator's
// kubeconfig each time, because "serve" and "replica" write the file while they start. Until
// then the file may be from an earlier start.
func (s *Server) probe(ctx context.Context, cfg serverConfig) error {
	rest, err := (&kubeconfig.Flags{Kubeconfig: cfg.kubeconfig}).Load("bench")
	if err != nil {
		return err
	}
	rest.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.port))
	if s.Target, err = NewTarget(TargetConfig{REST: rest, HTTP1: cfg.http1}); err != nil {
		return err
	}
	return s.Target.Get(ctx, "/readyz", nil)
}

// freePort returns a TCP port that is free now. Another process may take it before the server
// does.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
