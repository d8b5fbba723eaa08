package bench

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	// stampKey is the annotation with the time of a write: nanoseconds since
	// 1970, always stampDigits of them. Writers and watchers read one clock.
	stampKey    = "bench.millrace.io/sent"
	stampMark   = stampKey + `":"`
	stampDigits = 19
)

func formatStamp(at time.Time) string { return fmt.Sprintf("%0*d", stampDigits, at.UnixNano()) }

// parseStamp returns zero for what is no stamp.
func parseStamp(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// frame makes the event of a stamped object for the floor.
func frame(object []byte) []byte {
	event := append([]byte(`{"type":"MODIFIED","object":`), bytes.TrimSpace(object)...)
	return append(event, "}\n"...)
}

// stamped copies a frame with another stamp.
func stamped(frame []byte, at time.Time) []byte {
	event := bytes.Clone(frame)
	if i := bytes.Index(event, []byte(stampMark)); i >= 0 {
		copy(event[i+len(stampMark):], formatStamp(at))
	}
	return event
}
