package watch

import "bytes"

// eventHead is how much of an event's beginning is kept, enough for its type.
const eventHead = 24

// event is what a client sees of an event of a watch. Its bytes are valid until
// the scanner is fed again.
type event struct {
	head   []byte // the first bytes
	marked bool   // it has the mark
	value  []byte // what follows the mark
}

// is reports whether an event is of a type.
func (e event) is(kind string) bool {
	// In protobuf the type is field 1, with its length ahead.
	return bytes.HasPrefix(e.head, []byte(`{"type":"`+kind+`"`)) ||
		bytes.HasPrefix(e.head, append([]byte{1<<3 | 2, byte(len(kind))}, kind...))
}

// eventScanner finds the events in a watch's JSON, each of which is a line, and
// one mark in each, without decoding: clients share the machine with the
// server. It copies a few bytes an event. mark is required.
type eventScanner struct {
	mark []byte
	tail int // bytes behind the mark that are wanted

	head  []byte
	carry []byte // end of the event so far, where a mark may have begun
	value []byte
	found bool
}

// feed takes the next bytes of a stream and calls visit for each event that
// they end.
func (s *eventScanner) feed(p []byte, visit func(event)) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.grow(p)
			return
		}
		s.grow(p[:end])
		if len(s.head) > 0 {
			visit(event{head: s.head, marked: s.found, value: s.value})
		}
		s.head, s.carry, s.value, s.found = s.head[:0], s.carry[:0], s.value[:0], false
		p = p[end+1:]
	}
}

// grow takes a part of one event.
func (s *eventScanner) grow(part []byte) {
	if lack := eventHead - len(s.head); lack > 0 {
		s.head = append(s.head, part[:min(len(part), lack)]...)
	}
	if s.found {
		return
	}
	keep := len(s.mark) + s.tail - 1 // one byte less than what is looked for
	if len(s.carry) > 0 {
		s.carry = append(s.carry, part[:min(len(part), keep)]...)
		if s.look(s.carry) {
			return
		}
	}
	if len(part) > keep {
		if s.look(part) {
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

func (s *eventScanner) look(in []byte) bool {
	at := bytes.Index(in, s.mark)
	if at < 0 || len(in) < at+len(s.mark)+s.tail {
		return false
	}
	at += len(s.mark)
	s.value, s.found = append(s.value[:0], in[at:at+s.tail]...), true
	return true
}
