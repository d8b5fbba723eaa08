package testbed

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

// Progress shows the user how far the measurement is: a line for each phase, and on a terminal
// also a line for each step. Errors of the writer are ignored. Progress is safe for concurrent use
// if its writer is.
type Progress struct {
	out      io.Writer
	detailed bool      // out is a terminal
	start    time.Time // of the times in the lines
}

// NewProgress returns a Progress that writes to out. The times in its lines count from now.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		p.detailed = display.IsTerminal(f)
	}
	return p
}

// Phase writes a line, with the time since the start.
func (p *Progress) Phase(format string, args ...any) {
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// Step writes a line if the output is a terminal.
func (p *Progress) Step(format string, args ...any) {
	if p.detailed {
		p.Phase("  "+format, args...)
	}
}
