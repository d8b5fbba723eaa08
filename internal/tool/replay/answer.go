package replay

import (
	"strconv"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// edge is how much of the beginning and of the end of an answer is kept. The metadata of a
// list is at its beginning; lists of custom resources have it at their end.
const edge = 64 << 10

// edges keeps the beginning and the end of what is written to it.
type edges struct{ head, tail []byte }

// Write implements io.Writer.
func (e *edges) Write(b []byte) (int, error) {
	n := len(b)
	if room := edge - len(e.head); room > 0 {
		e.head = append(e.head, b[:min(room, n)]...)
	}
	b = b[max(0, n-edge):]
	if over := len(e.tail) + len(b) - edge; over > 0 {
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	e.tail = append(e.tail, b...)
	return n, nil
}

// events counts the changes of a watch whose body is written to it.
type events struct {
	reader  watchevent.Reader
	changes int64
	// saw is told the resource version of each event.
	saw func(revision uint64)
}

// Write implements io.Writer.
func (e *events) Write(b []byte) (int, error) {
	return len(b), e.reader.Feed(b, func(event *watchevent.Event) {
		if event.Type != watchevent.Bookmark {
			e.changes++
		}
		if revision, err := strconv.ParseUint(string(event.Revision), 10, 64); err == nil {
			e.saw(revision)
		}
	})
}
