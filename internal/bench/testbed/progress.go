package testbed

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress tells the user what is going on: a line per phase, and on a
// terminal also a line per step.
type Progress struct {
	out      io.Writer
	detailed bool
	start    time.Time
}

func NewProgress(out io.Writer) *Progress {
	p := &Progress{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.detailed = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Phase is always shown.
func (p *Progress) Phase(format string, args ...any) {
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// Step is shown on a terminal.
func (p *Progress) Step(format string, args ...any) {
	if p.detailed {
		p.Phase("  "+format, args...)
	}
}
