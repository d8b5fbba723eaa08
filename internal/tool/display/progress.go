package display

import (
	"io"
	"time"
)

// progressInterval is the least time between two texts of a Progress on a terminal. Elsewhere
// it is lineInterval.
const progressInterval = 200 * time.Millisecond

// Progress shows how far work is that calls Show often. On a terminal it shows one line that
// is overwritten, elsewhere a line every ten seconds. Short work shows none. A Progress belongs
// to one goroutine.
type Progress struct {
	line *Line
	now  func() time.Time
	last time.Time // when a text was shown, at first the start
}

// NewProgress returns a Progress on out of work that starts now. Nil means that nothing is shown.
func NewProgress(out io.Writer) *Progress { return newProgress(NewLine(out), time.Now) }

// newProgress is NewProgress with a clock.
func newProgress(line *Line, now func() time.Time) *Progress {
	return &Progress{line: line, now: now, last: now()}
}

// Show shows the result of text, unless a result was shown a moment ago.
func (p *Progress) Show(text func() string) {
	interval := lineInterval
	if p.line.isTerminal {
		interval = progressInterval
	}
	now := p.now()
	if now.Sub(p.last) < interval {
		return
	}
	p.last = now
	p.line.Show(text())
}

// End clears the line on a terminal.
func (p *Progress) End() { p.line.End() }
