package watch

import (
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// streamForm is the encoding that a watch requests. The zero value is JSON.
type streamForm struct {
	name             string // a value of --forms, or empty
	accept, encoding string
}

const acceptWatchProtobuf = testbed.AcceptProtobuf + ";stream=watch"

// isProtobuf reports whether the stream consists of frames of protobuf.
func (f streamForm) isProtobuf() bool { return strings.HasPrefix(f.accept, testbed.AcceptProtobuf) }

// endScanner returns a scanner whose mark is in the bookmark that ends the initial events.
func (f streamForm) endScanner() *testbed.EventScanner {
	if f.isProtobuf() {
		return &testbed.EventScanner{Frames: true, Mark: []byte(testbed.InitialEndKey)}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.InitialEndMark)}
}

// stampScanner returns a scanner that finds the stamps of events.
func (f streamForm) stampScanner() *testbed.EventScanner {
	if f.isProtobuf() {
		return &testbed.EventScanner{Frames: true, Mark: []byte(testbed.StampMarkProtobuf), ValueBytes: testbed.StampDigits}
	}
	return &testbed.EventScanner{
		Mark: []byte(testbed.StampMark), ValueBytes: testbed.StampDigits,
		HeadBytes: testbed.ResourceVersionHeadBytes,
	}
}
