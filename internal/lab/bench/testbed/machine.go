package testbed

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// Machine describes the computer that a report's numbers depend on.
type Machine struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu,omitempty"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	Go          string `json:"go"`
}

// ThisMachine describes this computer. Fields whose source in /proc cannot be read
// stay empty.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes, _ = parseKB(text, "MemTotal")
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(text))
	}
	return m
}

// cpuModel returns the first model name in the text of /proc/cpuinfo, or "".
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// LoadAverage returns the machine's load over the last minute, or "" if /proc does not have it.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	average, _, _ := strings.Cut(string(text), " ")
	return average
}

// BusyCPU returns the time that all processors of this machine have worked since its start,
// for any program. It returns 0 if /proc does not have it.
func BusyCPU() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	const user, idle, waiting, steal = 1, 4, 5, 8 // indices of fields, as in proc(5)
	var ticks int64
	for i := user; i < min(len(fields), steal); i++ {
		if n, err := strconv.ParseInt(fields[i], 10, 64); err == nil && i != idle && i != waiting {
			ticks += n
		}
	}
	return time.Duration(ticks) * ClockTick
}

func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d cores", m.Cores)}
	if m.CPU != "" {
		parts[0] += " (" + m.CPU + ")"
	}
	if m.MemoryBytes > 0 {
		parts = append(parts, render.FormatBytes(m.MemoryBytes)+" memory")
	}
	if m.Kernel != "" {
		parts = append(parts, "Linux "+m.Kernel)
	}
	return strings.Join(append(parts, m.Go), ", ")
}
