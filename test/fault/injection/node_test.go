package injection

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// node is a process of the cluster, which faults happen to.
type node struct {
	name  string
	start func() *harness.Process
	// ready returns nil once the process serves.
	ready func(context.Context) error
	mu    struct {
		sync.Mutex
		process *harness.Process
		// ended is set when the cluster ends, so that nothing is started again.
		ended bool
		// exits tell how often the process ended by itself, and what it said.
		exits []string
	}
}

// relaunchPause is how long a process is away that has ended by itself.
const relaunchPause = time.Second

// launch starts the process in the place of one that has ended, or of none, and again
// whenever it ends by itself, as systemd or a kubelet does.
func (n *node) launch(before *harness.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.ended || n.mu.process != before {
		return
	}
	p := n.start()
	n.mu.process = p
	go func() {
		<-p.Done()
		n.noteExit(p)
		<-time.After(relaunchPause)
		n.launch(p)
	}()
}

// noteExit notes that a process has ended, if nobody has killed it.
func (n *node) noteExit(p *harness.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.process == p && !n.mu.ended {
		n.mu.exits = append(n.mu.exits, p.Output())
	}
}

// kill ends the process at once.
func (n *node) kill() {
	if p := n.release(); p != nil {
		p.Kill()
	}
}

// terminate asks the process to end, waits for that, and returns its error.
func (n *node) terminate() error {
	if p := n.release(); p != nil {
		return p.Terminate()
	}
	return nil
}

// release returns the process, nil if none runs. It is not started again when it ends.
func (n *node) release() *harness.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.mu.process
	n.mu.process = nil
	return p
}

// end ends the process for good.
func (n *node) end() {
	n.mu.Lock()
	n.mu.ended = true
	n.mu.Unlock()
	n.kill()
}

// signal sends a signal, if the process runs.
func (n *node) signal(s os.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.mu.process; p != nil {
		p.Signal(s)
	}
}

// revive has the process run, whatever happened to it.
func (n *node) revive() {
	n.signal(syscall.SIGCONT)
	n.launch(nil)
}

// takeExits returns what the process said whenever it ended by itself since the last call.
func (n *node) takeExits() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	exits := n.mu.exits
	n.mu.exits = nil
	return exits
}

// ends is how often the process ended by itself since takeExits.
func (n *node) ends() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.mu.exits)
}

// output is the end of what the running process has said.
func (n *node) output() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.process == nil {
		return ""
	}
	return n.mu.process.Output()
}

// memory is the resident memory of the process, in bytes, or 0 if it does not run.
func (n *node) memory() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.process == nil {
		return 0
	}
	return residentBytes(n.mu.process.PID())
}

// residentBytes is the resident memory of a process; 0 where /proc does not tell it.
func residentBytes(pid int) int64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
