package sentobject

import (
	"bytes"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Format is how an object is written.
type Format int

const (
	// JSON is an object in one line, with kind and version first.
	JSON Format = iota
	// Protobuf is an object in Kubernetes' envelope.
	Protobuf
)

// Object is an object, or a list without items, as it is sent alone. It refers to the bytes
// that it was read from.
type Object struct {
	format Format
	// around are what precedes and follows the body: kind and version.
	around [2][]byte
	// body is the object without kind and version, in parts around the resource version. In
	// protobuf, these are parts of the metadata, and rest is what follows the metadata.
	before, after, rest []byte
	revision            []byte
}

// Read finds the parts of an object. It returns false for bytes that are not written as API
// servers write the objects of built-in kinds.
func Read(format Format, data []byte) (Object, bool) {
	if format == Protobuf {
		return readProtobuf(data, objectRevision)
	}
	return readJSON(data)
}

// ReadEmptyList is Read for a list. It also returns false if the list has items.
func ReadEmptyList(format Format, data []byte) (Object, bool) {
	if format == Protobuf {
		list, ok := readProtobuf(data, listRevision)
		return list, ok && len(list.rest) == 0
	}
	list, ok := readJSON(data)
	return list, ok && bytes.Contains(data, []byte(`"items":[]`))
}

// Revision returns the resource version. It returns 0 if the resource version is not a
// number.
func (o *Object) Revision() int64 {
	revision, err := strconv.ParseInt(string(o.revision), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// Append appends the object with a resource version.
func (o *Object) Append(dst []byte, revision int64) []byte {
	dst = append(dst, o.around[0]...)
	var digits [20]byte
	written := strconv.AppendInt(digits[:0], revision, 10)
	if o.format == Protobuf {
		dst = o.appendMessage(dst, envelopeRaw, written)
	} else {
		dst = o.appendText(dst, written)
	}
	return append(dst, o.around[1]...)
}

// AppendItem appends the object with a resource version as it stands in a list. In protobuf
// that is a field of the list.
func (o *Object) AppendItem(dst []byte, revision int64) []byte {
	var digits [20]byte
	written := strconv.AppendInt(digits[:0], revision, 10)
	if o.format == Protobuf {
		return o.appendMessage(dst, listItem, written)
	}
	return o.appendText(append(dst, '{'), written)
}

func (o *Object) appendText(dst, revision []byte) []byte {
	dst = append(dst, o.before...)
	dst = append(dst, revision...)
	return append(dst, o.after...)
}

// appendMessage appends the body as a field of a message.
func (o *Object) appendMessage(dst []byte, field protowire.Number, revision []byte) []byte {
	// The resource version and its length follow the tag, which before ends with.
	metadata := len(o.before) + protowire.SizeBytes(len(revision)) + len(o.after)
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(protowire.SizeTag(metadataField)+protowire.SizeBytes(metadata)+len(o.rest)))
	dst = protowire.AppendTag(dst, metadataField, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(metadata))
	dst = append(dst, o.before...)
	dst = protowire.AppendBytes(dst, revision)
	dst = append(dst, o.after...)
	return append(dst, o.rest...)
}
