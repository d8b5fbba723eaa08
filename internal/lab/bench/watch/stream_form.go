package watch

import (
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// streamForm is the encoding in which a watch is asked for.
type streamForm struct {
	name             string // of --forms; empty: it is no value of that flag
	accept, encoding string
}

const acceptWatchProtobuf = testbed.AcceptProtobuf + ";stream=watch"

func (f streamForm) isProtobuf() bool { return strings.HasPrefix(f.accept, testbed.AcceptProtobuf) }

// endScanner returns a scanner whose mark is in the bookmark that ends the initial events.
func (f streamForm) endScanner() *testbed.EventScanner {
	if f.isProtobuf() {
		return &testbed.EventScanner{Frames: true, Mark: []byte(testbed.InitialEndKey)}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.InitialEndMark)}
}

// revisionHead is how many of an event's first bytes have its object's resource version: only
// names, the namespace and the UID are in front of it.
const revisionHead = 640

// stampScanner returns a scanner that finds the stamps of events.
func (f streamForm) stampScanner() *testbed.EventScanner {
	if f.isProtobuf() {
		return &testbed.EventScanner{Frames: true, Mark: []byte(testbed.StampMarkProtobuf), ValueBytes: testbed.StampDigits}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.StampMark), ValueBytes: testbed.StampDigits, HeadBytes: revisionHead}
}
