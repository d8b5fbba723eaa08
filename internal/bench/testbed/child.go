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
	// stopGrace is what a server gets to end after SIGTERM.
	stopGrace = 30 * time.Second
	// InterruptGrace is the same when the user is waiting for the prompt.
	InterruptGrace = 5 * time.Second
	// serveTimeout is what a child gets to load its data and to serve.
	serveTimeout = time.Minute
	// tailLines of a child's log are shown when it fails.
	tailLines = 20
)

// ChildConfig says what to run. All fields are required, except that args may
// be empty.
type ChildConfig struct {
	Path    string
	Args    []string
	LogFile string // file for stdout and stderr
}

// Child is a running process in a process group of its own, so that Ctrl-C
// reaches only us and children are ended in order. It is always reaped, and
// the kernel kills it if this process dies without having stopped it.
type Child struct {
	cfg  ChildConfig
	proc *os.Process
	done chan struct{} // closed after the process was reaped
	err  error         // how it ended; read after done
}

// StartChild starts a process. The caller must call stop.
func StartChild(cfg ChildConfig) (*Child, error) {
	log, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	c := &Child{cfg: cfg, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties the death signal to the thread that forked, so
		// that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
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

// wait returns how the process ended, and stops it when ctx ends first.
func (c *Child) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		c.Stop(ctx)
		return context.Cause(ctx)
	}
	if c.err != nil {
		return fmt.Errorf("run %q: %w%s", c.cfg.Args[0], c.err, c.tail())
	}
	return nil
}

// Stop ends the process and returns after it was reaped: SIGTERM first,
// SIGKILL after a grace period, which is short when ctx has ended. It reports
// whether the process ended without being killed. Safe to call again.
func (c *Child) Stop(ctx context.Context) bool {
	if c.exited() {
		return true
	}
	grace := stopGrace
	if ctx.Err() != nil {
		grace = InterruptGrace
	}
	c.signal(syscall.SIGTERM)
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-c.done:
		return true
	case <-late.C:
	}
	c.signal(syscall.SIGKILL)
	<-c.done
	return false
}

// Await reads the JSON file that a child writes when it serves.
func (c *Child) Await(ctx context.Context, file string, v any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serveTimeout, fmt.Errorf("not ready within %s", serveTimeout))
	defer cancel()
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			return json.Unmarshal(text, v)
		}
		if c.exited() {
			return fmt.Errorf("it ended (%v)%s", c.err, c.tail())
		}
		if err := Sleep(ctx, readyPoll); err != nil {
			return fmt.Errorf("%w%s", err, c.tail())
		}
	}
}

// signal reaches the whole group. The child leads it, so the group exists
// until the child was reaped; a failure means that just that has happened.
func (c *Child) signal(sig syscall.Signal) {
	_ = syscall.Kill(-c.PID(), sig)
}

// tail returns the last lines of the log, ready to be added to an error.
func (c *Child) tail() string {
	const most = 64 << 10
	f, err := os.Open(c.cfg.LogFile)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(f, most))
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "; it logged nothing"
	}
	lines := strings.Split(string(text), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("; last lines of %s:\n  %s", c.cfg.LogFile, strings.Join(lines, "\n  "))
}
