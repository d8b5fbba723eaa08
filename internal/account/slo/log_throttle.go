package slo

import (
	"sync"
	"time"
)

// maxLinesPerMinute bounds the lines of a logThrottle.
const maxLinesPerMinute = 10

// logThrottle bounds the log lines of a minute, and counts the lines that it drops. The zero
// value is ready. It is safe for concurrent use.
type logThrottle struct {
	mu struct {
		sync.Mutex
		minuteBegan time.Time
		// lines counts the calls in the minute.
		lines int
		// dropped counts the calls whose lines were dropped since the last line.
		dropped uint64
	}
}

// do calls log, which writes a line, unless the minute has had maxLinesPerMinute. dropped is how
// many lines were dropped before this one.
func (t *logThrottle) do(now time.Time, log func(dropped uint64)) {
	t.mu.Lock()
	if now.Sub(t.mu.minuteBegan) >= time.Minute {
		t.mu.minuteBegan, t.mu.lines = now, 0
	}
	if t.mu.lines++; t.mu.lines > maxLinesPerMinute {
		t.mu.dropped++
		t.mu.Unlock()
		return
	}
	dropped := t.mu.dropped
	t.mu.dropped = 0
	t.mu.Unlock()
	log(dropped)
}
