package testbed

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	// StampKey is the annotation with the time of a write: nanoseconds since
	// 1970, always stampDigits of them. Writers and watchers read one clock.
	StampKey    = "bench.millrace.io/sent"
	StampMark   = StampKey + `":"`
	StampDigits = 19
)

func FormatStamp(at time.Time) string { return fmt.Sprintf("%0*d", StampDigits, at.UnixNano()) }

// ParseStamp returns zero for what is no stamp.
func ParseStamp(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// ModifiedEvent makes the event of a stamped object for the floor.
func ModifiedEvent(object []byte) []byte {
	event := append([]byte(`{"type":"MODIFIED","object":`), bytes.TrimSpace(object)...)
	return append(event, "}\n"...)
}

// WithStamp copies a frame with another stamp.
func WithStamp(frame []byte, at time.Time) []byte {
	event := bytes.Clone(frame)
	if i := bytes.Index(event, []byte(StampMark)); i >= 0 {
		copy(event[i+len(StampMark):], FormatStamp(at))
	}
	return event
}
