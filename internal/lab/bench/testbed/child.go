package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 30 * time.Second
	// InterruptGrace replaces stopGrace after an interrupt, when the user waits for the
	// prompt.
	InterruptGrace = 5 * time.Second
	// serveTimeout bounds the time in which a child loads its data before it listens.
	serveTimeout = time.Minute
	// tailLines is the number of lines of a child's log that an error shows.
	tailLines = 20
)

// ChildConfig says what to run. All fields are required.
type ChildConfig struct {
	Path    string
	Args    []string
	LogFile string // stdout and stderr are appended to it
}

// Child is a running process. It has a process group of its own: Ctrl-C reaches this process
// alone, which then ends its children in order. A goroutine reaps the child. On Linux the
// kernel kills the child if this process dies first.
type Child struct {
	cfg  ChildConfig
	proc *os.Process
	done chan struct{} // closed once the process is reaped
	err  error         // how the process ended, nil for exit code 0; may be read after done is closed
}

// StartChild starts a process. The caller must call Stop.
func StartChild(cfg ChildConfig) (*Child, error) {
	logFile, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = sysProcAttr()
	c := &Child{cfg: cfg, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so
		// that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer logFile.Close()
		err := cmd.Start()
		c.proc = cmd.Process
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Path, err)
	}
	return c, nil
}

// PID returns the process id. It is valid until the process has ended and is reaped.
func (c *Child) PID() int { return c.proc.Pid }

// exited reports whether the process has ended.
func (c *Child) exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process, and returns an error unless its exit code is 0. If
// ctx ends first, wait stops the process and returns the cause of that.
func (c *Child) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		c.Stop(ctx)
		return context.Cause(ctx)
	}
	if c.err != nil {
		return fmt.Errorf("run %q: %w%s", c.cfg.Args[0], c.err, c.logTail())
	}
	return nil
}

// Stop sends SIGTERM, and SIGKILL after a grace period: stopGrace, or InterruptGrace once ctx has
// ended. It returns when the process is reaped, and reports whether it sent no SIGKILL. It may be
// called again.
func (c *Child) Stop(ctx context.Context) bool {
	if c.exited() {
		return true
	}
	grace := stopGrace
	if ctx.Err() != nil {
		grace = InterruptGrace
	}
	c.signal(syscall.SIGTERM)
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-c.done:
		return true
	case <-timeout.C:
	}
	c.Kill()
	return false
}

// Kill sends SIGKILL, and returns when the process is reaped.
func (c *Child) Kill() {
	if c.exited() {
		return
	}
	c.signal(syscall.SIGKILL)
	<-c.done
}

// Await waits for the JSON file that the child writes when it listens, and decodes it into v.
// It returns an error if the child ends before, or after serveTimeout.
func (c *Child) Await(ctx context.Context, file string, v any) error {
	return c.poll(ctx, serveTimeout, func(context.Context) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, v)
	})
}

// poll calls try until it succeeds. It returns an error after timeout, when ctx ends, or when
// the child has ended.
func (c *Child) poll(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready within %s", timeout))
	defer cancel()
	for {
		last := try(ctx)
		if last == nil {
			return nil
		}
		if c.exited() {
			return fmt.Errorf("it ended (%v)%s", c.err, c.logTail())
		}
		if err := Sleep(ctx, readyPoll); err != nil {
			return fmt.Errorf("%w; last probe: %v%s", err, last, c.logTail())
		}
	}
}

// signal sends a signal to the child's process group. The group exists until the
// child is reaped, so an error only means that the child has ended meanwhile.
func (c *Child) signal(sig syscall.Signal) {
	_ = syscall.Kill(-c.PID(), sig)
}

// logTail returns the last lines of the log, in a form that can be appended to an error's
// text. It returns "" if the log cannot be opened.
func (c *Child) logTail() string {
	const maxBytes = 64 << 10
	f, err := os.Open(c.cfg.LogFile)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxBytes {
		_, _ = f.Seek(-maxBytes, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxBytes))
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "; it logged nothing"
	}
	lines := strings.Split(string(text), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("; last lines of %s:\n  %s", c.cfg.LogFile, strings.Join(lines, "\n  "))
}
