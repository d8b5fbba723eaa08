package testbed

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// readyPoll is the time between two questions whether a server is ready.
const readyPoll = 50 * time.Millisecond

// serverConfig says how to run "serve". All fields are required, except args
// and http1.
type serverConfig struct {
	executable string
	readPath   string
	dataDir    string
	port       int
	logFile    string
	args       []string // appended to the command line
	http1      bool
	timeout    time.Duration // from start to ready
}

// Server is a child that serves, and how to reach it.
type Server struct {
	*Child
	Target  *Target
	Startup time.Duration // from the start of the process to its readiness
}

func (c serverConfig) kubeconfig() string { return filepath.Join(c.dataDir, "admin.kubeconfig") }

// startServer returns when the server is ready. The caller must call Stop.
func startServer(ctx context.Context, cfg serverConfig) (*Server, error) {
	start := time.Now()
	args := append([]string{"serve", "--data-dir=" + cfg.dataDir,
		"--secure-port=" + strconv.Itoa(cfg.port), "--read-path=" + cfg.readPath}, cfg.args...)
	process, err := StartChild(ChildConfig{Path: cfg.executable, Args: args, LogFile: cfg.logFile})
	if err != nil {
		return nil, err
	}
	s := &Server{Child: process}
	if s.Target, err = s.awaitReady(ctx, cfg); err != nil {
		s.Stop(ctx)
		return nil, err
	}
	s.Startup = time.Since(start)
	return s, nil
}

// awaitReady polls /readyz. It uses the kubeconfig of the administrator, which the
// server writes while it starts.
func (s *Server) awaitReady(ctx context.Context, cfg serverConfig) (*Target, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.timeout, fmt.Errorf("not ready within %s", cfg.timeout))
	defer cancel()
	for {
		t, probeErr := s.probe(ctx, cfg)
		if probeErr == nil {
			return t, nil
		}
		if s.exited() {
			return nil, fmt.Errorf("start %s server: it ended (%v)%s", cfg.readPath, s.err, s.logTail())
		}
		if err := Sleep(ctx, readyPoll); err != nil {
			return nil, fmt.Errorf("start %s server: %w; last probe: %v%s", cfg.readPath, err, probeErr, s.logTail())
		}
	}
}

// probe asks whether the server is ready. It loads the kubeconfig each time, because
// the file may still be that of an earlier start.
func (s *Server) probe(ctx context.Context, cfg serverConfig) (*Target, error) {
	rest, err := LoadKubeconfig(cfg.kubeconfig())
	if err != nil {
		return nil, err
	}
	rest.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.port))
	t, err := NewTarget(TargetConfig{REST: rest, HTTP1: cfg.http1})
	if err != nil {
		return nil, err
	}
	return t, t.Get(ctx, "/readyz", nil)
}

// freePort finds a TCP port that is free now. Another process may take it before the
// server does.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
