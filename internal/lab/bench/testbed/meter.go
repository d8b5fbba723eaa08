package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ClockTick is the unit of CPU times in /proc/<pid>/stat. The kernel scales to
// USER_HZ, which is 100 on every Linux architecture that Go supports.
const ClockTick = 10 * time.Millisecond

// Usage is one reading of a process.
type Usage struct {
	CPU time.Duration // user and system time of all threads, including ended threads
	RSS int64         // resident bytes
	// Peak is the highest RSS since the last successful ResetPeak, or since the process started. For
	// a remote process it is RSS.
	Peak int64
}

// Meter reads a process's CPU time and memory: from /proc, or from the metrics of a server
// that runs elsewhere. A nil Meter stands for an unknown process: only ReadIfKnown may be
// called on it.
type Meter struct {
	root   string // "/proc", except in tests
	pid    int
	remote *remoteProcess // nil: a process of this machine
}

// NewMeter returns a meter of a process of this machine, which need not exist yet.
func NewMeter(pid int) *Meter { return &Meter{root: "/proc", pid: pid} }

func (m *Meter) path(name string) string {
	return filepath.Join(m.root, strconv.Itoa(m.pid), name)
}

// Read takes a reading. It returns an error if the process has ended.
func (m *Meter) Read() (Usage, error) {
	if m.remote != nil {
		return m.remote.read()
	}
	stat, err := os.ReadFile(m.path("stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("read process times: %w", err)
	}
	cpu, err := parseStat(stat)
	if err != nil {
		return Usage{}, fmt.Errorf("parse process times: %w", err)
	}
	status, err := os.ReadFile(m.path("status"))
	if err != nil {
		return Usage{}, fmt.Errorf("read process memory: %w", err)
	}
	rss, err := parseKB(status, "VmRSS")
	if err != nil {
		return Usage{}, fmt.Errorf("parse process memory: %w", err)
	}
	peak, err := parseKB(status, "VmHWM")
	if err != nil {
		return Usage{}, fmt.Errorf("parse process memory: %w", err)
	}
	return Usage{CPU: cpu, RSS: rss, Peak: peak}, nil
}

// BytesWritten returns the bytes that the process has handed to the kernel since it started: to
// files, and to connections after TLS. It returns 0 for a remote server, because metrics lack the
// number.
func (m *Meter) BytesWritten() (int64, error) {
	if m.remote != nil {
		return 0, nil
	}
	text, err := os.ReadFile(m.path("io"))
	if err != nil {
		return 0, fmt.Errorf("read process output: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "wchar: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("parse process output: no wchar line in %q", text)
}

// ReadIfKnown takes a reading. It returns the zero value if m is nil.
func (m *Meter) ReadIfKnown() (Usage, error) {
	if m == nil {
		return Usage{}, nil
	}
	return m.Read()
}

// ResetPeak sets the peak back to the current RSS, and reports whether the kernel permitted it. It
// returns false for a remote process.
func (m *Meter) ResetPeak() bool {
	return m.remote == nil && os.WriteFile(m.path("clear_refs"), []byte("5"), 0) == nil
}

const (
	// MaxRests bounds the number of periods that AwaitIdle waits.
	MaxRests = 20
	// idleCPUDivisor defines idle: in a period, a server used at most 1/idleCPUDivisor of one
	// core, or two clock ticks if that is more.
	idleCPUDivisor = 5
)

// AwaitIdle waits for periods of length rest, until the server was idle during a period. It
// returns the reading at the end of that period. After MaxRests periods it returns the last
// reading, and idle is false.
func (m *Meter) AwaitIdle(ctx context.Context, rest time.Duration) (now Usage, idle bool, err error) {
	before, err := m.Read()
	if err != nil {
		return Usage{}, false, err
	}
	for range MaxRests {
		if err := Sleep(ctx, rest); err != nil {
			return Usage{}, false, err
		}
		if now, err = m.Read(); err != nil {
			return Usage{}, false, err
		}
		if now.CPU-before.CPU <= max(rest/idleCPUDivisor, 2*ClockTick) {
			return now, true, nil
		}
		before = now
	}
	return now, false, nil
}

// AwaitIdleWithProgress is AwaitIdle with progress: it shows that it waits, and at the end whether
// the server was not idle. subject names the measurement.
func (m *Meter) AwaitIdleWithProgress(ctx context.Context, progress *Progress, subject string, rest time.Duration) (Usage, error) {
	progress.Step("%s, rest", subject)
	now, idle, err := m.AwaitIdle(ctx, rest)
	if err == nil && !idle {
		progress.Step("%s: the server was not idle within %s", subject, MaxRests*rest)
	}
	return now, err
}

// ClientCPU returns the CPU time that this process, the client, has used since it started.
func ClientCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
