package fill

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// counter sums up the results of all workers for one kind. It is safe for
// concurrent use.
type counter struct {
	done, skipped, bytes atomic.Int64
}

// add adds the result of some objects.
func (c *counter) add(n Count) {
	c.done.Add(n.Done)
	c.skipped.Add(n.Skipped)
	c.bytes.Add(n.Bytes)
}

// snapshot returns the sums so far.
func (c *counter) snapshot() Count {
	return Count{Done: c.done.Load(), Skipped: c.skipped.Load(), Bytes: c.bytes.Load()}
}

// progress is the state of the work on one kind.
type progress struct {
	verb    string // filling or deleting
	kind    Kind
	total   int64 // expected number of objects, 0 if unknown
	start   time.Time
	counter counter
}

// text returns the progress as one line.
func (p *progress) text(now time.Time) string {
	count := p.counter.snapshot()
	n := count.Done + count.Skipped
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", p.verb, p.kind.noun(2), formatCount(n))
	if p.total > 0 {
		fmt.Fprintf(&b, " of %s (%d %%)", formatCount(p.total), 100*n/p.total)
	}
	perSecond := rate(n, now.Sub(p.start))
	fmt.Fprintf(&b, ", %s/s%s", formatCount(perSecond), count.sizeText())
	if p.total > n && perSecond > 0 {
		fmt.Fprintf(&b, ", %s left", (time.Duration((p.total-n)/perSecond) * time.Second).String())
	}
	return b.String()
}
