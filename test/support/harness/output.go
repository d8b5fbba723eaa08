package harness

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// outputTail is an io.Writer that keeps the last tailBytes that are written to it, or up
// to twice as many. It is safe for use by several goroutines.
type outputTail struct {
	mu struct {
		sync.Mutex
		buf []byte
	}
}

const tailBytes = 64 << 10

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.buf = append(t.mu.buf, p...)
	if len(t.mu.buf) > 2*tailBytes {
		t.mu.buf = bytes.Clone(t.mu.buf[len(t.mu.buf)-tailBytes:])
	}
	return len(p), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.mu.buf), "?")
}

// The summary of a log must not hide the failure of the test beside it.
const (
	summaryLines = 30
	summaryWidth = 300
	// Lines are alike if their first shapeWidth bytes are equal, without numbers.
	shapeWidth = 70
)

var numberPattern = regexp.MustCompile(`[0-9a-f-]*[0-9][0-9a-f-]*`)

// summarize returns the last lines of an output. Of lines that are alike, only the last stays.
func summarize(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	shapes := map[string]bool{}
	var summary []string
	for _, line := range slices.Backward(lines) {
		shape := fmt.Sprintf("%.*s", shapeWidth, numberPattern.ReplaceAllString(line, "#"))
		if shapes[shape] {
			continue
		}
		shapes[shape] = true
		if summary = append(summary, fmt.Sprintf("%.*s", summaryWidth, line)); len(summary) == summaryLines {
			break
		}
	}
	slices.Reverse(summary)
	return strings.Join(summary, "\n")
}
