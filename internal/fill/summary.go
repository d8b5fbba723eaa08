package fill

import (
	"fmt"
	"strings"
	"time"
)

// Count says what happened to the objects of one kind.
type Count struct {
	// Done is the number of objects written or removed.
	Done int64
	// Skipped is the number of objects left alone: they existed before the
	// fill, or they hold what fill did not make.
	Skipped int64
	// Bytes is the encoded size of the objects done.
	Bytes int64
}

func (c *Count) add(d Count) {
	c.Done += d.Done
	c.Skipped += d.Skipped
	c.Bytes += d.Bytes
}

// Summary is the outcome of a run, complete or not.
type Summary struct {
	// Deleted says that the counts are of removed objects.
	Deleted bool
	// Kinds holds the kinds that were begun.
	Kinds   map[Kind]Count
	Elapsed time.Duration
	// Notes say what was left alone and why, in a few lines.
	Notes []string
}

// Total adds up all kinds.
func (s Summary) Total() Count {
	var total Count
	for _, count := range s.Kinds {
		total.add(count)
	}
	return total
}

// String is the summary in one line.
func (s Summary) String() string {
	verb, left := "filled", "existed already"
	if s.Deleted {
		verb, left = "deleted", "left alone"
	}
	var parts []string
	for _, kind := range Kinds() {
		if n := s.Kinds[kind].Done; n > 0 {
			parts = append(parts, formatCount(n)+" "+kind.noun(n))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	total := s.Total()
	line := fmt.Sprintf("%s %s in %.1f s (%s objects/s, %s)", verb, strings.Join(parts, ", "),
		s.Elapsed.Seconds(), formatCount(rate(total.Done, s.Elapsed)), formatBytes(total.Bytes))
	if total.Skipped > 0 {
		line += fmt.Sprintf("; %s %s", formatCount(total.Skipped), left)
	}
	return line
}

func rate(n int64, elapsed time.Duration) int64 {
	if elapsed <= 0 {
		return 0
	}
	return int64(float64(n)/elapsed.Seconds() + 0.5)
}
