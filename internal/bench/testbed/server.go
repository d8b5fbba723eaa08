package testbed

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"
)

// readyPoll is how often a starting server is asked whether it is ready.
const readyPoll = 50 * time.Millisecond

// serverConfig says how to run "serve". All fields are required, except args
// and http1.
type serverConfig struct {
	exe      string
	readPath string
	dataDir  string
	port     int
	log      string
	args     []string // added at the end
	http1    bool
	timeout  time.Duration // until ready
}

// Server is a running, ready "serve".
type Server struct {
	*Child
	Target  *Target
	Startup time.Duration // start to ready
}

func (c serverConfig) kubeconfig() string { return filepath.Join(c.dataDir, "admin.kubeconfig") }

// startServer returns when the server is ready. The caller must call stop.
func startServer(ctx context.Context, cfg serverConfig) (*Server, error) {
	start := time.Now()
	args := append([]string{"serve", "--data-dir=" + cfg.dataDir,
		"--secure-port=" + strconv.Itoa(cfg.port), "--read-path=" + cfg.readPath}, cfg.args...)
	process, err := StartChild(ChildConfig{Path: cfg.exe, Args: args, LogFile: cfg.log})
	if err != nil {
		return nil, err
	}
	s := &Server{Child: process}
	var last error
	s.Target, last = s.awaitReady(ctx, cfg)
	if last != nil {
		s.Stop(ctx)
		return nil, last
	}
	s.Startup = time.Since(start)
	return s, nil
}

// awaitReady polls /readyz with the admin kubeconfig, which the server writes
// while it starts.
func (s *Server) awaitReady(ctx context.Context, cfg serverConfig) (*Target, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.timeout, fmt.Errorf("not ready within %s", cfg.timeout))
	defer cancel()
	var last error
	for {
		var t *Target
		if t, last = s.probe(ctx, cfg); last == nil {
			return t, nil
		}
		if s.exited() {
			return nil, fmt.Errorf("start %s server: it ended (%v)%s", cfg.readPath, s.err, s.tail())
		}
		if err := Sleep(ctx, readyPoll); err != nil {
			return nil, fmt.Errorf("start %s server: %w; last probe: %v%s", cfg.readPath, err, last, s.tail())
		}
	}
}

// probe reads the kubeconfig anew, since it may be of a former start.
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

// freePort finds a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
