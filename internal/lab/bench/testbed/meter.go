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
	CPU  time.Duration // user and system time of all threads, ended ones too
	RSS  int64         // resident bytes
	Peak int64         // highest RSS since the last reset that the kernel permitted
}

// Meter reads a process's CPU time and memory: from /proc, or from the metrics of a server
// that runs elsewhere. A nil Meter stands for no process; only ReadIfKnown may be called on it.
type Meter struct {
	root   string // "/proc", except in tests
	pid    int
	remote *remoteProcess // nil: a process of this machine
}

// NewMeter returns a meter of a process, which need not exist yet.
func NewMeter(pid int) *Meter { return &Meter{root: "/proc", pid: pid} }

func (m *Meter) path(name string) string {
	return filepath.Join(m.root, strconv.Itoa(m.pid), name)
}

// Read takes a reading.
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

// Written returns the bytes that the process has handed to the kernel so far: to files, and
// to connections after TLS. A server that runs elsewhere does not tell them: they are 0.
func (m *Meter) Written() (int64, error) {
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

// Total is what some processes have used so far, all together.
type Total struct {
	Usage
	Written int64 // as Meter.Written
}

// ReadAll takes a reading of each meter, and adds them up.
func ReadAll(meters ...*Meter) (t Total, err error) {
	for _, m := range meters {
		use, err := m.Read()
		if err != nil {
			return t, err
		}
		written, err := m.Written()
		if err != nil {
			return t, err
		}
		t.CPU, t.RSS, t.Peak, t.Written = t.CPU+use.CPU, t.RSS+use.RSS, t.Peak+use.Peak, t.Written+written
	}
	return t, nil
}

// ReadServers is ReadAll for the meters of servers.
func ReadServers(servers []*Server) (Total, error) {
	meters := make([]*Meter, len(servers))
	for i, s := range servers {
		meters[i] = s.Meter()
	}
	return ReadAll(meters...)
}

// ReadIfKnown takes a reading, or returns the zero value if m is nil.
func (m *Meter) ReadIfKnown() (Usage, error) {
	if m == nil {
		return Usage{}, nil
	}
	return m.Read()
}

// ResetPeak sets the peak back to the current RSS, and reports whether the kernel
// permitted that.
func (m *Meter) ResetPeak() bool {
	return m.remote == nil && os.WriteFile(m.path("clear_refs"), []byte("5"), 0) == nil
}

const (
	// MaxRests bounds how many periods of rest AwaitIdle waits.
	MaxRests = 20
	// idleCoreShare says when a server is idle: it uses less than the fifth part of a
	// core.
	idleCoreShare = 5
)

// AwaitIdle waits for periods of rest until the server was idle during one of them,
// then takes a reading. After MaxRests periods it reads in any case, and reports
// that the server was not idle.
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
		if now.CPU-before.CPU <= max(rest/idleCoreShare, 2*ClockTick) {
			return now, true, nil
		}
		before = now
	}
	return now, false, nil
}

// AwaitIdleLogged is AwaitIdle, and tells the user of it. subject names the
// measurement.
func (m *Meter) AwaitIdleLogged(ctx context.Context, log *Progress, subject string, rest time.Duration) (Usage, error) {
	log.Step("%s, rest", subject)
	now, idle, err := m.AwaitIdle(ctx, rest)
	if err == nil && !idle {
		log.Step("%s: the server was not idle within %s", subject, MaxRests*rest)
	}
	return now, err
}

// parseStat returns utime plus stime of a /proc/<pid>/stat line. The command name is
// in parentheses and may contain spaces and parentheses itself. Fields are therefore
// counted from the last closing one.
func parseStat(line []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return 0, fmt.Errorf("no command name in %q", line)
	}
	fields := strings.Fields(string(line[end+1:]))
	const utime, stime = 11, 12 // fields 14 and 15 of proc(5), counted from field 3
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

// ClientCPU is the CPU time that this process, the client, has used.
func ClientCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// FileLimit is how many files this process may have open.
func FileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(limit.Cur, math.MaxInt))
}
