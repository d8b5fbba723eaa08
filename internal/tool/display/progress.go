package display

import (
	"io"
	"time"
)

// progressInterval is that of a Progress on a terminal. Elsewhere it is lineInterval.
const progressInterval = 200 * time.Millisecond

// Progress tells how far long work is: on a terminal in one line that is written over, and
// elsewhere in a line each ten seconds. Work that is short shows none.
type Progress struct {
	line *Line
	now  func() time.Time
	last time.Time
}

// NewProgress begins now.
func NewProgress(out io.Writer) *Progress { return newProgress(NewLine(out), time.Now) }

func newProgress(line *Line, now func() time.Time) *Progress {
	return &Progress{line: line, now: now, last: now()}
}

// Show shows what text returns, if it is time for a line.
func (p *Progress) Show(text func() string) {
	now, interval := p.now(), lineInterval
	if p.line.terminal {
		interval = progressInterval
	}
	if now.Sub(p.last) < interval {
		return
	}
	p.last = now
	p.line.Show(text())
}

// End clears the line on a terminal.
func (p *Progress) End() { p.line.End() }
