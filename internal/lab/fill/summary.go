package fill

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// Count holds the result of a run for the objects of one kind.
type Count struct {
	// Done is the number of objects written or removed.
	Done int64
	// Skipped is the number of objects that were not touched. They existed before
	// the fill, or they had changed, or they hold objects that fill did not make.
	Skipped int64
	// Bytes is the encoded size of the objects that Done counts.
	Bytes int64
}

func (c *Count) add(d Count) {
	c.Done += d.Done
	c.Skipped += d.Skipped
	c.Bytes += d.Bytes
}

// sizeText returns a comma and the size. It is empty if the size is not known, as in a deletion.
func (c *Count) sizeText() string {
	if c.Bytes == 0 {
		return ""
	}
	return ", " + render.FormatBytes(c.Bytes)
}

// Summary is the result of a run, whether or not the run was complete.
type Summary struct {
	// Deleted is set if the run removed objects.
	Deleted bool
	// Kinds holds a count for each kind that the run has started.
	Kinds   map[Kind]Count
	Elapsed time.Duration
	// Notes explains in a few lines what was skipped and why.
	Notes []string
}

// Total returns the sum over all kinds.
func (s Summary) Total() Count {
	var total Count
	for _, count := range s.Kinds {
		total.add(count)
	}
	return total
}

// String returns the summary as one line of text.
func (s Summary) String() string {
	verb, skipped := "filled", "existed already"
	if s.Deleted {
		verb, skipped = "deleted", "left alone"
	}
	var parts []string
	for _, kind := range ProfileKinds() {
		if n := s.Kinds[kind].Done; n > 0 {
			parts = append(parts, formatCount(n)+" "+kind.noun(n))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	total := s.Total()
	line := fmt.Sprintf("%s %s in %.1f s (%s objects/s%s)", verb, strings.Join(parts, ", "),
		s.Elapsed.Seconds(), formatCount(rate(total.Done, s.Elapsed)), total.sizeText())
	if total.Skipped > 0 {
		line += fmt.Sprintf("; %s %s", formatCount(total.Skipped), skipped)
	}
	return line
}

// rate returns n per second of elapsed, rounded.
func rate(n int64, elapsed time.Duration) int64 {
	if elapsed <= 0 {
		return 0
	}
	return int64(float64(n)/elapsed.Seconds() + 0.5)
}

// formatCount formats 1234567 as 1,234,567.
func formatCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
