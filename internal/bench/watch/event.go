package watch

import "bytes"

// eventHeadBytes is how many of an event's first bytes are copied: enough for its type.
const eventHeadBytes = 24

// event is the part of a watch's event that scanners find. Its bytes are valid until
// the scanner's next call of feed.
type event struct {
	head   []byte // the first bytes
	marked bool   // the event contains the scanner's mark
	value  []byte // the bytes right after the mark
}

// isType reports whether an event is of a type.
func (e event) isType(kind string) bool {
	// In protobuf the type is field 1, preceded by its length.
	return bytes.HasPrefix(e.head, []byte(`{"type":"`+kind+`"`)) ||
		bytes.HasPrefix(e.head, append([]byte{1<<3 | 2, byte(len(kind))}, kind...))
}

// eventScanner finds the events in a watch's JSON, each of which is one line, and a mark
// inside each. It does not decode and copies only a few bytes of an event, because the
// client shares the machine with the server. mark is required.
//
// A read of the stream may cut an event anywhere, even inside the mark. carry therefore
// holds the last bytes of the event so far: one byte less than mark and value have.
type eventScanner struct {
	mark       []byte
	valueBytes int // how many bytes after the mark are the value

	head  []byte
	carry []byte
	value []byte
	found bool
}

// feed scans the next bytes of a stream. It calls visit for each event that ends in them.
func (s *eventScanner) feed(p []byte, visit func(event)) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.add(p)
			return
		}
		s.add(p[:end])
		if len(s.head) > 0 {
			visit(event{head: s.head, marked: s.found, value: s.value})
		}
		s.head, s.carry, s.value, s.found = s.head[:0], s.carry[:0], s.value[:0], false
		p = p[end+1:]
	}
}

// add scans the next part of one event.
func (s *eventScanner) add(part []byte) {
	if lack := eventHeadBytes - len(s.head); lack > 0 {
		s.head = append(s.head, part[:min(len(part), lack)]...)
	}
	if s.found {
		return
	}
	keep := len(s.mark) + s.valueBytes - 1
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

func (s *eventScanner) findMark(in []byte) bool {
	at := bytes.Index(in, s.mark)
	if at < 0 || len(in) < at+len(s.mark)+s.valueBytes {
		return false
	}
	at += len(s.mark)
	s.value, s.found = append(s.value[:0], in[at:at+s.valueBytes]...), true
	return true
}
