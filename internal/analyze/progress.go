package analyze

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/display"
)

// progress tells how far reading is: on a terminal in one line that is written over, and
// elsewhere in a line each time.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	// total are the bytes of all inputs, 0 if that is not known. done are those of inputs
	// that were read.
	total, done int64
	began, last time.Time
	shown       bool
}

// Times between two lines. Short runs show none.
const (
	terminalInterval = 200 * time.Millisecond
	lineInterval     = 10 * time.Second
)

// set says that so many bytes of the present input were read.
func (p *progress) set(bytes int64) {
	now, interval := p.now(), lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if p.began.IsZero() {
		p.began, p.last = now, now
	}
	if now.Sub(p.last) < interval {
		return
	}
	p.last, p.shown = now, true
	bytes += p.done
	text := "read " + display.Size(bytes)
	if p.total > 0 {
		text += fmt.Sprintf(" of %s (%s)", display.Size(p.total), display.Percent(float64(bytes)/float64(p.total)))
	}
	text += fmt.Sprintf(", %s/s", display.Size(float64(bytes)/now.Sub(p.began).Seconds()))
	if p.terminal {
		fmt.Fprintf(p.out, "\r%-60s", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// next says that an input was read.
func (p *progress) next(size int64) { p.done += size }

// end leaves the line.
func (p *progress) end() {
	if p.terminal && p.shown {
		fmt.Fprintf(p.out, "\r%-60s\r", "")
	}
}
