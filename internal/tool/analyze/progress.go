package analyze

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
)

// progress tells how much of the inputs was read.
type progress struct {
	line *display.Progress
	// total are the bytes of all inputs, 0 if that is not known. done are those of inputs
	// that were read.
	total, done int64
	began       time.Time
}

// set says that so many bytes of the present input were read.
func (p *progress) set(bytes int64) {
	bytes += p.done
	p.line.Show(func() string {
		text := "read " + display.Size(bytes)
		if p.total > 0 {
			text += fmt.Sprintf(" of %s (%s)", display.Size(p.total), display.Percent(float64(bytes)/float64(p.total)))
		}
		return text + fmt.Sprintf(", %s/s", display.Size(float64(bytes)/time.Since(p.began).Seconds()))
	})
}

// next says that an input was read.
func (p *progress) next(size int64) { p.done += size }
