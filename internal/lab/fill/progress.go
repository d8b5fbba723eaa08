package fill

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// counter sums up the results of all workers for one kind. It is safe for
// concurrent use.
type counter struct {
	done, skipped, bytes atomic.Int64
}

func (c *counter) add(n Count) {
	c.done.Add(n.Done)
	c.skipped.Add(n.Skipped)
	c.bytes.Add(n.Bytes)
}

func (c *counter) count() Count {
	return Count{Done: c.done.Load(), Skipped: c.skipped.Load(), Bytes: c.bytes.Load()}
}

// progress shows the progress of one kind. It polls the counter at its own
// interval, so that workers never wait for a terminal.
type progress struct {
	cfg     Config
	verb    string
	kind    Kind
	total   int64 // zero if unknown
	counter *counter
}

// run shows the progress until done is closed. It then shows the final state once.
func (p progress) run(done <-chan struct{}) {
	const redraw = 100 * time.Millisecond
	if p.cfg.Bars && p.total > 0 {
		p.every(redraw, done, p.bar())
		return
	}
	start := p.cfg.Now()
	if p.cfg.Bars { // no total: a line that is overwritten
		p.every(redraw, done, func(final bool) {
			end := "\r"
			if final {
				end = "\n"
			}
			fmt.Fprintf(p.cfg.Progress, "%-78s%s", p.line(start), end)
		})
		return
	}
	p.every(p.cfg.Interval, done, func(final bool) {
		if !final {
			fmt.Fprintln(p.cfg.Progress, p.line(start))
		}
	})
}

// every calls show(false) at each interval, and show(true) once done is closed.
func (p progress) every(interval time.Duration, done <-chan struct{}, show func(final bool)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			show(true)
			return
		case <-ticker.C:
			show(false)
		}
	}
}

// bar returns a function that draws a progress bar with rate and remaining time.
func (p progress) bar() func(final bool) {
	bar := progressbar.NewOptions64(p.total,
		progressbar.OptionSetWriter(p.cfg.Progress),
		progressbar.OptionSetDescription(fmt.Sprintf("%-16s", p.kind.noun(2))),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetRenderBlankState(true),
		// A spinner would start a goroutine that never ends.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
	return func(final bool) {
		count := p.counter.count()
		// An error affects only the drawing. The summary has the numbers.
		_ = bar.Set64(min(p.total, count.Done+count.Skipped))
		if final {
			io.WriteString(p.cfg.Progress, "\n")
		}
	}
}

// line returns the progress as one line of text.
func (p progress) line(start time.Time) string {
	count := p.counter.count()
	elapsed := p.cfg.Now().Sub(start)
	n := count.Done + count.Skipped
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", p.verb, p.kind.noun(2), formatCount(n))
	if p.total > 0 {
		fmt.Fprintf(&b, " of %s (%d %%)", formatCount(p.total), 100*n/p.total)
	}
	perSecond := rate(n, elapsed)
	fmt.Fprintf(&b, ", %s/s%s", formatCount(perSecond), count.sizeText())
	if p.total > n && perSecond > 0 {
		fmt.Fprintf(&b, ", %s left", (time.Duration((p.total-n)/perSecond) * time.Second).String())
	}
	return b.String()
}
