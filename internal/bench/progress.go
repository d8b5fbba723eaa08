package bench

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells the user what is going on: a line per phase, and on a
// terminal also a line per step.
type progress struct {
	out      io.Writer
	detailed bool
	start    time.Time
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.detailed = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// phase is always shown.
func (p *progress) phase(format string, args ...any) {
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// step is shown on a terminal.
func (p *progress) step(format string, args ...any) {
	if p.detailed {
		p.phase("  "+format, args...)
	}
}
