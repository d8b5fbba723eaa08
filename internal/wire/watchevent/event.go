package watchevent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Form is an encoding of answers.
type Form int

const (
	JSON Form = iota
	Protobuf
)

// FormOf returns the form of a media type. What is not protobuf is taken for JSON.
func FormOf(contentType string) Form {
	if strings.HasPrefix(contentType, "application/vnd.kubernetes.protobuf") {
		return Protobuf
	}
	return JSON
}

// Values of Event.Type.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	Error    = "ERROR"
)

// Event is one event of a watch. Its bytes are valid during the call that gets it.
type Event struct {
	Type string
	// Object is the object: JSON, or a protobuf message without Kubernetes' envelope.
	Object []byte
	// Revision is the object's resource version.
	Revision []byte
	// Frame is the event as it was sent, with what ends it or is in front of it.
	Frame []byte
}

// EndsInitial reports whether an event is the bookmark after the initial events.
func (e *Event) EndsInitial() bool {
	return e.Type == Bookmark && bytes.Contains(e.Object, []byte("k8s.io/initial-events-end"))
}

// maxEvent bounds an event, whose parts are kept until it is whole. Objects have 1.5 MiB in
// etcd, and several times that as JSON.
const maxEvent = 16 << 20

// keptCarry is the capacity up to which a Reader keeps an empty carry for its next event.
const keptCarry = 4 << 10

// Reader finds the events in the body of a watch. The zero value reads JSON.
type Reader struct {
	Form Form
	// carry is the beginning of an event whose end has not come.
	carry []byte
}

// Feed takes the next bytes of a body, and calls visit for each event that ends in them.
func (r *Reader) Feed(p []byte, visit func(*Event)) error {
	carried := len(r.carry) > 0
	if carried {
		r.carry = append(r.carry, p...)
		p = r.carry
	}
	for {
		start, end := r.bounds(p)
		if end < 0 {
			break
		}
		if err := r.visit(p[:end], start, visit); err != nil {
			return err
		}
		p = p[end:]
	}
	if len(p) > maxEvent {
		return fmt.Errorf("an event has more than %d bytes", maxEvent)
	}
	switch {
	case len(p) == 0 && cap(r.carry) > keptCarry:
		r.carry = nil
	case carried:
		r.carry = r.carry[:copy(r.carry, p)]
	default:
		r.carry = append(r.carry[:0], p...)
	}
	return nil
}

// bounds returns where the first event in b lies. end is -1 if it is not whole. A JSON
// event ends with a line feed, and a protobuf one has its length in front.
func (r *Reader) bounds(b []byte) (start, end int) {
	if r.Form == JSON {
		if at := bytes.IndexByte(b, '\n'); at >= 0 {
			return 0, at + 1
		}
		return 0, -1
	}
	if len(b) < 4 {
		return 0, -1
	}
	size := int(binary.BigEndian.Uint32(b))
	if size > maxEvent || len(b) < 4+size {
		return 0, -1
	}
	return 4, 4 + size
}

var errEvent = errors.New("an event has no type")

// visit reads the event of a frame, in which it begins at start.
func (r *Reader) visit(frame []byte, start int, visit func(*Event)) error {
	e := Event{Frame: frame}
	frame = frame[start:]
	var kind []byte
	if r.Form == JSON {
		if len(bytes.TrimSpace(frame)) == 0 {
			return nil
		}
		kind, e.Object = Text(Member(frame, "type")), Member(frame, "object")
	} else {
		kind = Field(frame, 1)
		e.Object = Unwrap(Field(Field(frame, 2), 1))
	}
	e.Revision = Revision(e.Object, r.Form)
	switch string(kind) {
	case Added:
		e.Type = Added
	case Modified:
		e.Type = Modified
	case Deleted:
		e.Type = Deleted
	case Bookmark:
		e.Type = Bookmark
	case Error:
		e.Type = Error
	default:
		return errEvent
	}
	visit(&e)
	return nil
}

// Revision returns the resource version of an object.
func Revision(object []byte, form Form) []byte {
	if form == JSON {
		return Text(Member(Member(object, "metadata"), "resourceVersion"))
	}
	return Field(Field(object, 1), 6)
}

// ListPosition returns the resource version and the continue token of a list. head and tail are
// the first and the last bytes of its body. Built-in lists begin with their metadata, and lists
// of custom resources end with it.
func ListPosition(form Form, head, tail []byte) (revision, token string) {
	if form == Protobuf {
		meta := Field(Unwrap(head), 1)
		return string(Field(meta, 2)), string(Field(meta, 3))
	}
	meta := Member(head, "metadata")
	if meta == nil {
		if at := bytes.LastIndex(tail, []byte(`"metadata":{`)); at >= 0 {
			meta = tail[at+len(`"metadata":`):]
		}
	}
	return string(Text(Member(meta, "resourceVersion"))), string(Text(Member(meta, "continue")))
}
