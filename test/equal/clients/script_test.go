package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scriptTimeout bounds one behaviour of one client. The scripts' own timeouts
// are shorter and have better messages.
const scriptTimeout = 2 * time.Minute

// check is a line that a script prints.
type check struct {
	Check string
	Error string
	Skip  string
	// Ready is set if the script has opened everything that a restart must not
	// break.
	Ready bool
}

// outcome is the result of a script.
type outcome struct {
	checks []check
	// err is set if the script did not run to its end.
	err error
}

// failed reports whether a check failed or did not run.
func (o outcome) failed(name string) bool {
	for _, c := range o.checks {
		if c.Check == name {
			return c.Error != ""
		}
	}
	return true
}

// script is a running script.
type script struct {
	// ready is closed when the script says that it is ready, or when it ends.
	ready chan struct{}
	// proceed is the script's standard input. A line on it lets a waiting
	// script continue.
	proceed io.WriteCloser
	done    chan struct{}
	outcome outcome
}

// start runs one behaviour of a client's script.
func (s *side) start(t *testing.T, c client, behaviour string) *script {
	t.Helper()
	r := &script{ready: make(chan struct{}), done: make(chan struct{})}
	cmd := exec.Command(c.command[0], append(c.command[1:], behaviour)...)
	cmd.Env = s.environment(c)
	// The kill below reaches all processes of the script by their process
	// group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err == nil {
		r.proceed, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	timer := time.AfterFunc(scriptTimeout, kill)
	go func() {
		defer close(r.done)
		defer timer.Stop()
		readErr := r.read(out)
		if err := cmd.Wait(); err != nil {
			r.outcome.err = fmt.Errorf("run script: %w: %s", err, complaints.Bytes())
		} else if readErr != nil {
			r.outcome.err = readErr
		}
	}()
	t.Cleanup(func() {
		kill()
		<-r.done
	})
	return r
}

// read reads the lines of a script until its end.
func (r *script) read(out io.Reader) error {
	ready := sync.OnceFunc(func() { close(r.ready) })
	defer ready()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var c check
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			_, _ = io.Copy(io.Discard, out)
			return fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		if c.Ready {
			ready()
			continue
		}
		r.outcome.checks = append(r.outcome.checks, c)
	}
	return lines.Err()
}

// end waits for the end of the script.
func (r *script) end() outcome {
	<-r.done
	return r.outcome
}

// compare runs a client's behaviours. If a check fails that the client may be
// unable to do, it runs the behaviour with the stock server too. The behaviour
// "watch" mostly waits, so it runs in parallel with the others.
func (e *environment) compare(t *testing.T, c client) {
	watches := e.ours.start(t, c, "watch")
	for _, behaviour := range []string{"early", "lists", "gone", "watch", "streams"} {
		t.Run(behaviour, func(t *testing.T) {
			running := watches
			if behaviour != "watch" {
				running = e.ours.start(t, c, behaviour)
			}
			stock := sync.OnceValue(func() outcome { return e.stock.start(t, c, behaviour).end() })
			judge(t, c, behaviour, running.end(), stock)
		})
	}
}

// judge makes a test of each check. If stock is nil, it treats all limits as
// random.
func judge(t *testing.T, c client, behaviour string, ours outcome, stock func() outcome) {
	t.Helper()
	if ours.err != nil {
		t.Error(ours.err)
	}
	if len(ours.checks) == 0 {
		t.Error("script made no check")
	}
	for _, check := range ours.checks {
		t.Run(check.Check, func(t *testing.T) {
			excuse := c.excuse(behaviour+": "+check.Check, check.Error)
			switch {
			case check.Skip != "":
				t.Skip(check.Skip)
			case check.Error == "":
			case excuse == nil:
				t.Error(check.Error)
			case !excuse.byChance && !stock().failed(check.Check):
				t.Errorf("with Kubernetes' read path it does not fail: %s", check.Error)
			default:
				t.Skipf("as with other servers: %s: %s", excuse.reason, check.Error)
			}
		})
	}
}
