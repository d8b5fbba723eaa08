// Package harness runs millrace as a user would, in processes of its own, for
// tests that need whole servers. The test binary is the program: it runs the
// command line when it is told so, so that one build serves all and the race
// detector sees the servers too.
//
// A test package calls Main from its TestMain, then Start for each server. All
// that was started is killed when the test ends.
package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/cli"
)

const roleVariable = "MILLRACE_TEST_RUN_COMMAND"

// Main runs the tests of a package, or the program for one of them.
func Main(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(cli.Main("test"))
	}
	if spec := os.Getenv(etcdVariable); spec != "" {
		os.Exit(runEtcd(spec))
	}
	os.Exit(m.Run())
}

// readyTimeout is generous: the race detector makes a start several times slower.
const (
	readyTimeout = 3 * time.Minute
	runTimeout   = 2 * time.Minute
)

// Process is a running command.
type Process struct {
	tb     testing.TB
	cmd    *exec.Cmd
	tail *outputTail
	done   chan struct{}
	err    error
}

// Command starts the program with arguments and returns at once.
func Command(tb testing.TB, args ...string) *Process {
	tb.Helper()
	return start(tb, roleVariable+"=1", args...)
}

// start starts the test binary in a role.
func start(tb testing.TB, role string, args ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, cmd: exec.Command(os.Args[0], args...), tail: &outputTail{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), role, "KUBECONFIG=")
	p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %v: %v", args, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("last output of %v:\n%s", args, summarize(p.Output()))
		}
	})
	return p
}

// Run runs the program to its end and returns its output and exit code.
func Run(tb testing.TB, args ...string) (output string, code int) {
	tb.Helper()
	p := Command(tb, args...)
	_ = p.Wait(runTimeout)
	return p.Output(), p.ExitCode()
}

// ExitCode is that of a process that has ended; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Output is the end of what the process wrote so far.
func (p *Process) Output() string { return p.tail.String() }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. After SIGSTOP the process has stopped: it does nothing more, which
// the signal alone does not say.
func (p *Process) Signal(s os.Signal) {
	p.tb.Helper()
	err := p.cmd.Process.Signal(s)
	if err == nil && s == syscall.SIGSTOP {
		err = waitStopped(p.PID())
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Fatalf("signal: %v", err)
	}
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Terminate asks the process to end, waits for it and returns its error.
func (p *Process) Terminate() error {
	p.Signal(syscall.SIGTERM)
	return p.Wait(time.Minute)
}

// Wait waits for the process to end by itself.
func (p *Process) Wait(timeout time.Duration) error {
	p.tb.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(timeout):
		p.tb.Fatalf("process did not end within %v; last output:\n%s", timeout, p.tail)
		return nil
	}
}

// Server is a running `millrace serve`.
type Server struct {
	*Process
	// URL is where it listens, DataDir what it was told.
	URL     string
	DataDir string

	port int
	args []string
}

// Start starts a server on a free port of the loopback address and waits until
// it is ready. args are added to the flags for the port and the data directory.
func Start(tb testing.TB, dataDir string, args ...string) *Server {
	tb.Helper()
	s := Launch(tb, dataDir, args...)
	s.WaitReady()
	return s
}

// Launch is Start without the waiting.
func Launch(tb testing.TB, dataDir string, args ...string) *Server {
	tb.Helper()
	return launchOn(tb, FreePort(tb), dataDir, args)
}

func launchOn(tb testing.TB, port int, dataDir string, args []string) *Server {
	tb.Helper()
	all := append([]string{"serve", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--data-dir=" + dataDir}, args...)
	return &Server{
		Process: Command(tb, all...), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: dataDir,
		port: port, args: args,
	}
}

// Restart starts a server that has ended once more, with the same port and
// arguments, and waits until it is ready.
func (s *Server) Restart() *Server {
	s.tb.Helper()
	again := launchOn(s.tb, s.port, s.DataDir, s.args)
	again.WaitReady()
	return again
}

// Successor starts another server on the port of a running one, with the same authority
// and arguments and further ones, and waits until it is ready. Both share the port
// (--permit-port-sharing): new connections go to either.
func (s *Server) Successor(args ...string) *Server {
	s.tb.Helper()
	dataDir := ShortTempDir(s.tb)
	if err := os.CopyFS(filepath.Join(dataDir, "pki"), os.DirFS(filepath.Join(s.DataDir, "pki"))); err != nil {
		s.tb.Fatalf("copy certificates: %v", err)
	}
	next := launchOn(s.tb, s.port, dataDir, slices.Concat(s.args, args))
	// /readyz of this port may be the other server's.
	err := Until(readyTimeout, func() error {
		if !strings.Contains(next.Output(), "millrace is ready") {
			return ErrNotYet
		}
		return nil
	})
	if err != nil {
		s.tb.Fatalf("successor not ready after %v:\n%s", readyTimeout, next.tail)
	}
	return next
}

// WaitReady waits until /readyz says ok.
func (s *Server) WaitReady() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if s.Ready() == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-s.done:
			s.tb.Fatalf("server ended before it was ready: %v\n%s", s.err, s.tail)
		case <-ctx.Done():
			s.tb.Fatalf("server not ready after %v: %v\n%s", readyTimeout, s.Ready(), s.tail)
		}
	}
}

// Ready asks /readyz.
func (s *Server) Ready() error {
	config, err := s.config()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.URL + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", resp.Status)
	}
	return nil
}

// Kubeconfig is the administrator's.
func (s *Server) Kubeconfig() string { return filepath.Join(s.DataDir, "admin.kubeconfig") }

// EtcdServers is the flag with which another server shares the embedded etcd.
func (s *Server) EtcdServers() string {
	return "--etcd-servers=unix://" + filepath.Join(s.DataDir, "etcd", "client.sock")
}

func (s *Server) config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.Host = s.URL
	return config, nil
}

// Config is an administrator's client configuration without rate limits.
func (s *Server) Config() *rest.Config {
	s.tb.Helper()
	config, err := s.config()
	if err != nil {
		s.tb.Fatalf("read kubeconfig: %v", err)
	}
	config.QPS = -1
	return config
}

// HTTPClient is an administrator's client that neither asks for compression nor
// undoes it.
func (s *Server) HTTPClient() *http.Client {
	s.tb.Helper()
	config := s.Config()
	cert, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		s.tb.Fatalf("read client certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
	s.tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// FreePort finds a port that nobody listens on.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// ShortTempDir is a temporary directory whose name leaves room for unix sockets.
func ShortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "mr")
	if err != nil {
		tb.Fatalf("make temporary directory: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// outputTail keeps the end of what is written to it.
type outputTail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 64 << 10

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailBytes {
		t.buf = bytes.Clone(t.buf[len(t.buf)-tailBytes:])
	}
	return len(p), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.buf), "?")
}

// briefLines and briefWidth bound what of a server's log stands beside a failure,
// which must not get lost in it.
const briefLines, briefWidth, briefStart = 30, 300, 70

var numberPattern = regexp.MustCompile(`[0-9a-f-]*[0-9][0-9a-f-]*`)

// summarize is the end of a log. Of lines that begin alike but for numbers, the last
// stays.
func summarize(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	seen := map[string]bool{}
	var kept []string
	for _, line := range slices.Backward(lines) {
		shape := fmt.Sprintf("%.*s", briefStart, numberPattern.ReplaceAllString(line, "#"))
		if seen[shape] {
			continue
		}
		seen[shape] = true
		if kept = append(kept, fmt.Sprintf("%.*s", briefWidth, line)); len(kept) == briefLines {
			break
		}
	}
	slices.Reverse(kept)
	return strings.Join(kept, "\n")
}
