package testbed

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	// StampKey is the annotation that holds the stamp of a write: the time at which it was sent, in
	// nanoseconds since 1970. Writers and watchers run on one machine and read its clock.
	StampKey = "bench.millrace.io/sent"
	// StampMark stands right before the stamp in an event's JSON.
	StampMark = StampKey + `":"`
	// StampMarkProtobuf stands right before the stamp in an event's protobuf. The two bytes after
	// the key are the tag of a map entry's value and the length of the stamp.
	StampMarkProtobuf = StampKey + "\x12\x13"
	// StampDigits is the number of digits of every stamp.
	StampDigits = 19
)

// FormatStamp returns the stamp of a time.
func FormatStamp(at time.Time) string { return fmt.Sprintf("%0*d", StampDigits, at.UnixNano()) }

// ParseStamp returns a stamp in nanoseconds since 1970, or zero if digits are not a stamp.
func ParseStamp(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// WithStamp returns a copy of an event of JSON in which the stamp of at replaces its own stamp.
// An event without a stamp is copied unchanged.
func WithStamp(event []byte, at time.Time) []byte {
	restamped := bytes.Clone(event)
	if i := bytes.Index(restamped, []byte(StampMark)); i >= 0 {
		copy(restamped[i+len(StampMark):], FormatStamp(at))
	}
	return restamped
}
