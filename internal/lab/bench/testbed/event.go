package testbed

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

const (
	// InitialEndKey is the annotation of the bookmark that ends initial events.
	InitialEndKey = "k8s.io/initial-events-end"
	// InitialEndMark is in the JSON of the bookmark that ends initial events, and in no other
	// event.
	InitialEndMark = `"` + InitialEndKey + `":"true"`
)

const (
	// EventHeadBytes is the number of an event's first bytes that contain its type.
	EventHeadBytes = 24
	// ResourceVersionHeadBytes is the number of an event's first bytes that contain its object's
	// resource version, in JSON. Only the type, names, the namespace and the UID come before it.
	ResourceVersionHeadBytes = 640
)

// Event is the part of a watch event that a scanner finds. Its bytes are valid until the next call
// of EventScanner.Feed.
type Event struct {
	Head   []byte // the first bytes
	Marked bool   // the event contains the scanner's Mark
	Value  []byte // the ValueBytes right after the mark; empty if there is no mark
}

// ModifiedEvent returns the MODIFIED event of an object as JSON that ends with a line feed. The
// object must be one line of JSON.
func ModifiedEvent(object []byte) []byte {
	event := append([]byte(`{"type":"MODIFIED","object":`), bytes.TrimSpace(object)...)
	return append(event, "}\n"...)
}

// IsType reports whether an event has the type kind, such as "ADDED".
func (e Event) IsType(kind string) bool {
	// In protobuf the type is field 1, preceded by its length.
	return bytes.HasPrefix(e.Head, []byte(`{"type":"`+kind+`"`)) ||
		bytes.HasPrefix(e.Head, append([]byte{1<<3 | 2, byte(len(kind))}, kind...))
}

// ResourceVersion returns the resource version of the object in an event's JSON, of which head has
// the first bytes. It returns nil if head does not contain the whole resource version. The result
// shares head's bytes.
func ResourceVersion(head []byte) []byte {
	_, rest, found := bytes.Cut(head, []byte(`"resourceVersion":"`))
	version, _, whole := bytes.Cut(rest, []byte{'"'})
	if !found || !whole {
		return nil
	}
	return version
}

// EventScanner finds the events in a watch, and a mark inside each. It decodes nothing and
// copies only a few bytes of an event, because the client shares the machine with the server.
//
// In JSON each event is one line; in protobuf it is a frame that starts with its length. A read of
// the stream may cut an event anywhere, even inside the mark. carry therefore holds the last bytes
// of the event that have arrived: up to one byte less than the length of mark and value.
type EventScanner struct {
	Frames     bool   // the stream is protobuf; false: JSON
	Mark       []byte // required; may be changed between two events
	ValueBytes int    // length of the value after the mark
	// HeadBytes is the length of Event.Head. 0: EventHeadBytes.
	HeadBytes int

	length    []byte // the bytes of a frame's length that have arrived
	remaining int    // bytes of the frame that have not arrived

	head  []byte
	carry []byte
	value []byte
	found bool
}

// Feed scans the next bytes of a stream. It calls visit for each event that ends in them.
func (s *EventScanner) Feed(p []byte, visit func(Event)) {
	for len(p) > 0 {
		part, rest, ends := s.cut(p)
		s.add(part)
		p = rest
		if !ends {
			continue
		}
		if len(s.head) > 0 {
			visit(Event{Head: s.head, Marked: s.found, Value: s.value})
		}
		s.length, s.head, s.carry, s.value = s.length[:0], s.head[:0], s.carry[:0], s.value[:0]
		s.found = false
	}
}

// cut splits p into the next part of the present event and the rest. ends reports whether the event
// ends with the part. part is nil while the length of a frame arrives.
func (s *EventScanner) cut(p []byte) (part, rest []byte, ends bool) {
	const lengthBytes = 4
	if !s.Frames {
		part, rest, ends = bytes.Cut(p, []byte{'\n'})
		return part, rest, ends
	}
	if missing := lengthBytes - len(s.length); missing > 0 {
		n := min(missing, len(p))
		if s.length = append(s.length, p[:n]...); len(s.length) == lengthBytes {
			s.remaining = int(binary.BigEndian.Uint32(s.length))
		}
		return nil, p[n:], false
	}
	n := min(s.remaining, len(p))
	s.remaining -= n
	return p[:n], p[n:], s.remaining == 0
}

// add scans the next part of one event. It copies the first bytes of the event to head, and
// looks for the mark across the boundary of parts.
func (s *EventScanner) add(part []byte) {
	if missing := cmp.Or(s.HeadBytes, EventHeadBytes) - len(s.head); missing > 0 {
		s.head = append(s.head, part[:min(len(part), missing)]...)
	}
	if s.found {
		return
	}
	keep := len(s.Mark) + s.ValueBytes - 1
	if len(s.carry) > 0 {
		s.carry = append(s.carry, part[:min(len(part), keep)]...)
		if s.findMark(s.carry) {
			return
		}
	}
	if len(part) > keep {
		if s.findMark(part) {
			return
		}
		s.carry = append(s.carry[:0], part[len(part)-keep:]...)
		return
	}
	if len(s.carry) == 0 {
		s.carry = append(s.carry, part...)
	}
	if surplus := len(s.carry) - keep; surplus > 0 {
		s.carry = append(s.carry[:0], s.carry[surplus:]...)
	}
}

// findMark looks for the mark with its whole value in bytes of an event. It sets value and found.
func (s *EventScanner) findMark(part []byte) bool {
	start := bytes.Index(part, s.Mark)
	if start < 0 || len(part) < start+len(s.Mark)+s.ValueBytes {
		return false
	}
	start += len(s.Mark)
	s.value = append(s.value[:0], part[start:start+s.ValueBytes]...)
	s.found = true
	return true
}
