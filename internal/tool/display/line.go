package display

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(out any) bool {
	file, isFile := out.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// Times between two lines of Follow.
const (
	terminalFollowInterval = time.Second
	lineInterval           = 10 * time.Second
)

// Line is text that the next one takes the place of: on a terminal the line is written over,
// and elsewhere each is a line of its own. Errors of writing are ignored. It may be used by
// several goroutines.
type Line struct {
	out      io.Writer
	terminal bool

	mu struct {
		sync.Mutex
		width int // of the text that is to be written over
	}
}

// NewLine shows lines on out. Nil means nowhere.
func NewLine(out io.Writer) *Line {
	if out == nil {
		out = io.Discard
	}
	return &Line{out: out, terminal: IsTerminal(out)}
}

// Show shows a text that the next one takes the place of.
func (l *Line) Show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.terminal {
		fmt.Fprintln(l.out, text)
		return
	}
	fmt.Fprintf(l.out, "\r%-*s", l.mu.width, text)
	l.mu.width = len(text)
}

// Print writes a line that stays.
func (l *Line) Print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
	fmt.Fprintf(l.out, format+"\n", args...)
}

// End clears what is shown.
func (l *Line) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

func (l *Line) clearLocked() {
	if l.mu.width > 0 {
		fmt.Fprintf(l.out, "\r%-*s\r", l.mu.width, "")
		l.mu.width = 0
	}
}

// Follow shows the state again and again until the context ends: each second on a terminal,
// and each ten elsewhere. since is the time since the last one.
func (l *Line) Follow(ctx context.Context, state func(since time.Duration) string) {
	interval := lineInterval
	if l.terminal {
		interval = terminalFollowInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer l.End()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.Show(state(interval))
		}
	}
}
