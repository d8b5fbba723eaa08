package testbed

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
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
	CPU  time.Duration // user and system time of all threads, dead ones too
	RSS  int64         // bytes
	Peak int64         // bytes; since the last reset that was permitted
}

// Meter reads a process's CPU time and memory from /proc. A nil meter is a
// server whose process is unknown.
type Meter struct {
	root string // "/proc", except in tests
	pid  int
}

func NewMeter(pid int) *Meter { return &Meter{root: "/proc", pid: pid} }

func (m *Meter) path(name string) string {
	return filepath.Join(m.root, strconv.Itoa(m.pid), name)
}

// Read takes a reading.
func (m *Meter) Read() (Usage, error) {
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

// ReadIfKnown takes a reading too, or returns the zero value from a nil meter.
func (m *Meter) ReadIfKnown() (Usage, error) {
	if m == nil {
		return Usage{}, nil
	}
	return m.Read()
}

// ResetPeak makes the peak start anew from the current RSS and reports whether
// the kernel permitted it.
func (m *Meter) ResetPeak() bool {
	return os.WriteFile(m.path("clear_refs"), []byte("5"), 0) == nil
}

const (
	MaxRests  = 20
	idleShare = 5 // a server that uses less than this part of a core is idle
)

// AwaitIdle leaves the server alone for some time, and as often again as it takes until it
// is idle, and reads. A server that was never idle is read all the same.
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
		if now.CPU-before.CPU <= max(rest/idleShare, 2*ClockTick) {
			return now, true, nil
		}
		before = now
	}
	return now, false, nil
}

// AwaitIdleLogged is rest, and says so in log. subject names what is measured.
func (m *Meter) AwaitIdleLogged(ctx context.Context, log *Progress, subject string, rest time.Duration) (Usage, error) {
	log.Step("%s, rest", subject)
	now, idle, err := m.AwaitIdle(ctx, rest)
	if err == nil && !idle {
		log.Step("%s: the server was not idle within %s", subject, MaxRests*rest)
	}
	return now, err
}

// parseStat returns utime+stime of a /proc/<pid>/stat line. The command name
// is in parentheses and may itself hold spaces and parentheses, so fields are
// counted from the last one.
func parseStat(line []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return 0, fmt.Errorf("no command name in %q", line)
	}
	fields := strings.Fields(string(line[end+1:]))
	const utime, stime = 11, 12 // fields 14 and 15, less pid and command, from zero
	if len(fields) <= stime {
		return 0, fmt.Errorf("only %d fields in %q", len(fields)+2, line)
	}
	var ticks int64
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * ClockTick, nil
}

// parseKB returns the bytes of a "Name:  123 kB" line, as in /proc/<pid>/status
// and /proc/meminfo.
func parseKB(text []byte, name string) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), name+":")
		if !ok {
			continue
		}
		number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !ok {
			return 0, fmt.Errorf("unit of %q is not kB", lines.Text())
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil {
			return 0, err
		}
		return kb * 1024, nil
	}
	return 0, fmt.Errorf("no %s line", name)
}

// ClientCPU is the CPU time that this process has used.
func ClientCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// FileLimit is how many files this process may open.
func FileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(limit.Cur, math.MaxInt))
}
