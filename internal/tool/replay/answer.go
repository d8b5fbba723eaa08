package replay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// listMetadata is what the next requests of a collection need of a LIST's answer.
type listMetadata struct {
	// revision is 0 if the answer has none.
	revision uint64
	token    string
}

// edge is how much of the beginning and of the end of an answer is kept. The metadata of a
// list is at its beginning; lists of custom resources have it at their end.
const edge = 64 << 10

// edges keeps the beginning and the end of what is written to it.
type edges struct{ head, tail []byte }

// Write implements io.Writer.
func (e *edges) Write(b []byte) (int, error) {
	n := len(b)
	if room := edge - len(e.head); room > 0 {
		e.head = append(e.head, b[:min(room, n)]...)
	}
	b = b[max(0, n-edge):]
	if over := len(e.tail) + len(b) - edge; over > 0 {
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	e.tail = append(e.tail, b...)
	return n, nil
}

// list returns the metadata of a list in JSON or protobuf. Fields that are not there are
// empty.
func (e *edges) list() listMetadata {
	if content, ok := bytes.CutPrefix(e.head, protobufPrefix); ok {
		metadata := field(field(content, unknownRaw), objectMetadata)
		return newListMetadata(string(field(metadata, listRevision)), string(field(metadata, listContinue)))
	}
	text := e.head
	if bytes.HasPrefix(text, []byte(`{"apiVersion"`)) {
		text = e.tail[max(0, bytes.LastIndex(e.tail, []byte(`"metadata":{`))):]
	} else {
		for _, end := range []string{`"items":`, `"columnDefinitions":`} {
			text, _, _ = bytes.Cut(text, []byte(end))
		}
	}
	return newListMetadata(stringOf(text, "resourceVersion"), stringOf(text, "continue"))
}

func newListMetadata(revision, token string) listMetadata {
	n, _ := strconv.ParseUint(revision, 10, 64) // 0 if it is none
	return listMetadata{n, token}
}

// stringOf returns the value of the first member of that name in JSON. It must have no
// escapes, as no resource version and no token has.
func stringOf(text []byte, name string) string {
	_, rest, ok := bytes.Cut(text, []byte(`"`+name+`":"`))
	if !ok {
		return ""
	}
	value, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return ""
	}
	return string(value)
}

// Fields of Kubernetes' messages: of runtime.Unknown, objects, ObjectMeta, ListMeta and
// WatchEvent (k8s.io/apimachinery, generated.proto).
const (
	unknownRaw     = 2
	objectMetadata = 1
	objectRevision = 6
	listRevision   = 2
	listContinue   = 3
	watchType      = 1
	watchObject    = 2
	rawExtension   = 1
)

var protobufPrefix = []byte("k8s\x00")

// field returns the last value of a field of a message, which may be cut off, or nil.
func field(message []byte, number protowire.Number) (value []byte) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return value
		}
		message = message[size:]
		if kind == protowire.BytesType && n == number {
			if b, size := protowire.ConsumeBytes(message); size >= 0 {
				value, message = b, message[size:]
				continue
			}
			// The field is longer than what is there.
			if _, size := protowire.ConsumeVarint(message); size >= 0 {
				return message[size:]
			}
			return value
		}
		if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
			return value
		}
		message = message[size:]
	}
	return value
}

// events counts what a watch delivers.
type events struct {
	changes, bookmarks int64
	// saw is told the resource version of each event.
	saw func(revision uint64)
}

// maxFrame bounds an event in protobuf.
const maxFrame = 64 << 20

// read reads the events of a watch until it ends. protobuf says in which form they are.
func (e *events) read(body io.Reader, protobuf bool) error {
	r := bufio.NewReaderSize(body, edge)
	next := e.nextJSON
	if protobuf {
		next = e.nextProtobuf
	}
	for {
		if err := next(r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// nextJSON reads a line. Metadata is within its first 64 KiB.
func (e *events) nextJSON(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if len(line) > 0 {
		e.add(bytes.Contains(line[:min(len(line), 32)], []byte("BOOKMARK")), stringOf(line, "resourceVersion"))
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return err
}

func (e *events) nextProtobuf(r *bufio.Reader) error {
	header := make([]byte, 4)
	if _, err := io.ReadFull(r, header); err != nil {
		return err
	}
	length := int(header[0])<<24 | int(header[1])<<16 | int(header[2])<<8 | int(header[3])
	if length > maxFrame {
		return errors.New("an event of more than 64 MiB")
	}
	head, err := r.Peek(min(length, edge))
	if err != nil {
		return err
	}
	object, _ := bytes.CutPrefix(field(field(head, watchObject), rawExtension), protobufPrefix)
	revision := field(field(field(object, unknownRaw), objectMetadata), objectRevision)
	e.add(string(field(head, watchType)) == "BOOKMARK", string(revision))
	_, err = r.Discard(length)
	return err
}

func (e *events) add(bookmark bool, revision string) {
	if bookmark {
		e.bookmarks++
	} else {
		e.changes++
	}
	if n, err := strconv.ParseUint(revision, 10, 64); err == nil {
		e.saw(n)
	}
}
