package display

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Times between two lines of a Progress.
const (
	terminalInterval = 200 * time.Millisecond
	lineInterval     = 10 * time.Second
)

// progressWidth is that of a line that is written over.
const progressWidth = 70

// Progress tells how far long work is: on a terminal in one line that is written over, and
// elsewhere in a line each ten seconds. Work that is short shows none.
type Progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	last     time.Time
	shown    bool
}

// NewProgress begins now.
func NewProgress(out io.Writer) *Progress {
	file, isFile := out.(*os.File)
	return newProgress(out, isFile && term.IsTerminal(int(file.Fd())), time.Now)
}

func newProgress(out io.Writer, terminal bool, now func() time.Time) *Progress {
	return &Progress{out: out, terminal: terminal, now: now, last: now()}
}

// Show shows what text returns, if it is time for a line. Errors of writing are ignored.
func (p *Progress) Show(text func() string) {
	now, interval := p.now(), lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if now.Sub(p.last) < interval {
		return
	}
	p.last, p.shown = now, true
	if p.terminal {
		fmt.Fprintf(p.out, "\r%-*s", progressWidth, text())
		return
	}
	fmt.Fprintln(p.out, text())
}

// End clears the line on a terminal.
func (p *Progress) End() {
	if p.terminal && p.shown {
		fmt.Fprintf(p.out, "\r%-*s\r", progressWidth, "")
	}
}
