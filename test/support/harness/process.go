package harness

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/replica/upstream"
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
