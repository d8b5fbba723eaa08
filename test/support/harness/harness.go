// Package harness runs our programs as a user would, in processes of their own, for tests
// that need whole servers.
//
// The test binary is also each program: an environment variable makes it run the
// command line, or an etcd, instead of the tests. So one build is enough, and the
// race detector sees the servers, too.
//
//	test binary (tests) --start--> test binary (millrace serve) --> embedded etcd
//	                    --start--> test binary (etcd, or a member of an etcd cluster)
//
// A test package calls Main from its TestMain, then Start for each server. All
// processes are killed when the test ends. The package is not for tests of one
// package, which need no process.
package harness

import (
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// roleVariable is the environment variable that makes the test binary run the command line.
const roleVariable = "MILLRACE_TEST_RUN_COMMAND"

// parallelFlag is the flag -parallel of test binaries.
const parallelFlag = "test.parallel"

// AsProgram is the entry of the environment with which a test binary runs the command line.
const AsProgram = roleVariable + "=1"

// ProgramVariable is the environment variable with the program that Command starts instead of
// the test binary: another build of millrace.
const ProgramVariable = "MILLRACE_TEST_PROGRAM"

// noKubeconfig hides the developer's own kubeconfig from our processes.
const noKubeconfig = "KUBECONFIG="

// parallelTests is the number of parallel tests of a package that run at once, unless -parallel
// is given. Tests of whole servers mostly wait: for timeouts, for caches, for other processes.
const parallelTests = 4

// Main runs the tests of a package, or the program if the environment says so.
func Main(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(runProgram())
	}
	if spec := os.Getenv(EtcdVariable); spec != "" {
		os.Exit(runEtcd(spec))
	}
	if spec := os.Getenv(memberVariable); spec != "" {
		os.Exit(runMember(spec))
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		_ = flag.Set(parallelFlag, strconv.Itoa(parallelTests)) // package testing has the flag
	}
	removeAbandoned()
	os.Exit(m.Run())
}

const (
	// readyTimeout is long, because the race detector makes a start several times slower.
	readyTimeout = 3 * time.Minute
	runTimeout   = 2 * time.Minute
)

// Process is a command that was started.
type Process struct {
	tb   testing.TB
	cmd  *exec.Cmd
	tail *outputTail
	// done is closed when the process has ended. err may be read after that.
	done chan struct{}
	err  error
}

// Command starts the program with arguments and returns at once.
func Command(tb testing.TB, args ...string) *Process {
	tb.Helper()
	return startProgram(tb, cmp.Or(os.Getenv(ProgramVariable), os.Args[0]), []string{AsProgram, noKubeconfig}, args)
}

// Program starts another program with arguments and returns at once.
func Program(tb testing.TB, program string, args ...string) *Process {
	tb.Helper()
	return startProgram(tb, program, nil, args)
}

// start starts the test binary in a role, which is an environment variable with its
// value.
func start(tb testing.TB, role string, args ...string) *Process {
	tb.Helper()
	return startProgram(tb, os.Args[0], []string{role, noKubeconfig}, args)
}

// startProgram starts a program with additional environment variables. The process is killed at
// the end of the test, or when the tests' process dies. A failed test logs its last output.
func startProgram(tb testing.TB, program string, env, args []string) *Process {
	tb.Helper()
	p := &Process{tb: tb, cmd: exec.Command(program, args...), tail: &outputTail{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
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
		if strings.Contains(p.Output(), upstream.FaultMessage) {
			tb.Errorf("%v tried a request that it must not make", args)
		}
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

// ExitCode returns the exit code of a process that has ended, or -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Output returns the end of the process's output so far.
func (p *Process) Output() string { return p.tail.String() }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. After SIGSTOP it also waits until the process has stopped.
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

// Terminate sends SIGTERM, waits for the end of the process and returns its error.
func (p *Process) Terminate() error {
	p.Signal(syscall.SIGTERM)
	return p.Wait(time.Minute)
}

// Wait waits until the process ends by itself, and returns its error. After the timeout the test
// fails.
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

// firstPort and lastPort bound the ports of servers. Kernels choose higher ports for outgoing
// connections, so no connection takes a port between FreePort and its use.
const firstPort, lastPort = 10000, 32000

// FreePort returns a random port of the loopback address that no process uses. Because it is
// random, concurrent test packages choose different ports.
func FreePort(tb testing.TB) int {
	tb.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
		last = err
	}
	tb.Fatalf("find free port: %v", last)
	return 0
}

// tempPrefix is the first part of the names of temporary directories. The id of the test process
// follows.
const tempPrefix = "mr"

// ShortTempDir makes a temporary directory whose name leaves room for unix sockets.
func ShortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(tempRoot(), tempPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		tb.Fatalf("make temporary directory: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
