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

// Width returns the number of characters on a line of a terminal, and 0 if out is not a terminal.
func Width(out any) int {
	file, isFile := out.(*os.File)
	if !isFile {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Times between two texts of Follow, on a terminal and elsewhere.
const (
	terminalFollowInterval = time.Second
	lineInterval           = 10 * time.Second
)

// Line shows the state of work. On a terminal each text overwrites the one before. Elsewhere
// each is a line of its own. Errors of writing are ignored. A Line is safe for concurrent use.
type Line struct {
	out        io.Writer
	isTerminal bool

	mu struct {
		sync.Mutex
		width int // in bytes, of the text that the terminal shows
	}
}

// NewLine returns a Line on out. Nil means that nothing is shown.
func NewLine(out io.Writer) *Line {
	if out == nil {
		out = io.Discard
	}
	return &Line{out: out, isTerminal: IsTerminal(out)}
}

// Show shows a text until the next one.
func (l *Line) Show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isTerminal {
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

// End clears the line on a terminal.
func (l *Line) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked()
}

// clearLocked overwrites the shown text with spaces.
func (l *Line) clearLocked() {
	if l.mu.width > 0 {
		fmt.Fprintf(l.out, "\r%-*s\r", l.mu.width, "")
		l.mu.width = 0
	}
}

// Follow shows the result of state again and again until the context ends: each second on a
// terminal, and every ten seconds elsewhere. since is the time since the last call, or since
// the start.
func (l *Line) Follow(ctx context.Context, state func(since time.Duration) string) {
	interval := lineInterval
	if l.isTerminal {
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
