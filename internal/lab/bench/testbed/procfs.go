package testbed

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseStat returns the CPU time in a /proc/<pid>/stat line: utime plus stime. The command name
// is in parentheses, and may contain spaces and parentheses itself. Fields are therefore counted
// from the last closing parenthesis.
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

// parseKB returns the value of a "Name:  123 kB" line in bytes. /proc/<pid>/status and
// /proc/meminfo have such lines.
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
