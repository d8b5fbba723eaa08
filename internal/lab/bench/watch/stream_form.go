package watch

import (
	"bytes"
	"encoding/binary"
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

// eventScanner finds the events of a watch, and a mark inside each. Feed scans the next bytes
// of a stream, and calls visit for each event that ends in them.
type eventScanner interface {
	Feed(p []byte, visit func(testbed.Event))
}

// endScanner returns a scanner whose mark is in the bookmark that ends the initial events.
func (f streamForm) endScanner() eventScanner {
	if f.isProtobuf() {
		return &frameScanner{mark: []byte(testbed.InitialEndKey)}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.InitialEndMark)}
}

// revisionHead is how many of an event's first bytes have its object's resource version: only
// names, the namespace and the UID are in front of it.
const revisionHead = 640

// stampScanner returns a scanner that finds the stamps of events.
func (f streamForm) stampScanner() eventScanner {
	if f.isProtobuf() {
		return &frameScanner{mark: []byte(testbed.StampMarkProtobuf), valueBytes: testbed.StampDigits}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.StampMark), ValueBytes: testbed.StampDigits, HeadBytes: revisionHead}
}

// maxScannedBytes is larger than any bookmark, and than what an object has in front of its
// annotations.
const maxScannedBytes = 4 << 10

// frameScanner is a testbed.EventScanner for protobuf, where each event is a frame that begins
// with its length. It searches for the mark in the first maxScannedBytes of a frame.
type frameScanner struct {
	mark       []byte
	valueBytes int // how many bytes after the mark are the value

	frame     []byte // the length, and the first bytes after it
	remaining int    // bytes of the frame that have not arrived
}

func (s *frameScanner) Feed(p []byte, visit func(testbed.Event)) {
	const length = 4
	for len(p) > 0 {
		if missing := length - len(s.frame); missing > 0 {
			n := min(missing, len(p))
			s.frame, p = append(s.frame, p[:n]...), p[n:]
			if len(s.frame) < length {
				return
			}
			s.remaining = int(binary.BigEndian.Uint32(s.frame))
		}
		n := min(s.remaining, len(p))
		s.frame = append(s.frame, p[:min(n, length+maxScannedBytes-len(s.frame))]...)
		if s.remaining, p = s.remaining-n, p[n:]; s.remaining > 0 {
			return
		}
		visit(s.event(s.frame[length:]))
		s.frame = s.frame[:0]
	}
}

// event is the event whose frame has these first bytes.
func (s *frameScanner) event(body []byte) testbed.Event {
	e := testbed.Event{Head: body[:min(len(body), testbed.EventHeadBytes)]}
	if at := bytes.Index(body, s.mark); at >= 0 && at+len(s.mark)+s.valueBytes <= len(body) {
		e.Marked, e.Value = true, body[at+len(s.mark):][:s.valueBytes]
	}
	return e
}
