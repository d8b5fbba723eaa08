package encode

import (
	"bytes"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// Framing is how a media type joins items into a list.
type Framing int

const (
	// JSON is one line: {…,"items":[a,b]…}.
	JSON Framing = iota
	// PrettyJSON is indented by two spaces, as for curl and browsers.
	PrettyJSON
	// Protobuf is Kubernetes' envelope: the magic number, then runtime.Unknown,
	// whose field 2 is the list: metadata in field 1, items in field 2.
	Protobuf
)

// frame is an encoded list without its items.
type frame struct {
	// before ends where the first item begins, after begins where the last ends.
	before, after []byte
	// list is the protobuf list message without items, "" for other framings.
	list []byte
}

const (
	unknownRaw protowire.Number = 2
	listItems  protowire.Number = 2
)

var protobufMagic = []byte("k8s\x00")

func (f Framing) separator() []byte {
	switch f {
	case JSON:
		return []byte(",")
	case PrettyJSON:
		return []byte(",\n")
	}
	return nil
}

// brackets are what opens and closes the items of an empty list, and of a list
// that has some.
func (f Framing) brackets() (empty, open, shut string) {
	if f == PrettyJSON {
		return `"items": []`, "\"items\": [\n", "\n  ]"
	}
	return `"items":[]`, `"items":[`, "]"
}

// split takes an encoded list without items apart.
func (f Framing) split(encoded []byte) (frame, error) {
	if f == Protobuf {
		return splitProtobuf(encoded)
	}
	empty, open, shut := f.brackets()
	i := bytes.Index(encoded, []byte(empty))
	if i < 0 {
		return frame{}, fmt.Errorf("%w: no %s", ErrShape, empty)
	}
	return frame{
		before: append(bytes.Clone(encoded[:i]), open...),
		after:  append([]byte(shut), encoded[i+len(empty):]...),
	}, nil
}

func splitProtobuf(encoded []byte) (frame, error) {
	rest, ok := bytes.CutPrefix(encoded, protobufMagic)
	if !ok {
		return frame{}, fmt.Errorf("%w: no magic number", ErrShape)
	}
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return frame{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(n))
		}
		if number == unknownRaw && kind == protowire.BytesType {
			list, m := protowire.ConsumeBytes(rest[n:])
			if m < 0 {
				return frame{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(m))
			}
			return frame{before: encoded[:len(encoded)-len(rest)], list: list, after: rest[n+m:]}, nil
		}
		m := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if m < 0 {
			return frame{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(m))
		}
		rest = rest[n+m:]
	}
	return frame{}, fmt.Errorf("%w: no list in the envelope", ErrShape)
}

// join makes the header and trailer of a list whose items take size bytes.
func (f Framing) join(surrounding frame, size int64) (header, trailer []byte) {
	if f != Protobuf {
		return surrounding.before, surrounding.after
	}
	header = bytes.Clone(surrounding.before)
	header = protowire.AppendTag(header, unknownRaw, protowire.BytesType)
	header = protowire.AppendVarint(header, uint64(len(surrounding.list))+uint64(size))
	return append(header, surrounding.list...), surrounding.after
}

// cut returns the item out of an encoded list of one. empty is the same list
// without it.
func (f Framing) cut(encoded []byte, empty frame) ([]byte, error) {
	if f == Protobuf {
		one, err := splitProtobuf(encoded)
		if err != nil {
			return nil, err
		}
		item, ok := bytes.CutPrefix(one.list, empty.list)
		if !ok || !isItem(item) {
			return nil, fmt.Errorf("%w: item not behind the metadata", ErrShape)
		}
		return item, nil
	}
	item, ok := bytes.CutPrefix(encoded, empty.before)
	if ok {
		item, ok = bytes.CutSuffix(item, empty.after)
	}
	if !ok {
		return nil, fmt.Errorf("%w: item not between the brackets", ErrShape)
	}
	return item, nil
}

// isItem reports whether b is exactly one field of the list's items.
func isItem(b []byte) bool {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number != listItems || kind != protowire.BytesType {
		return false
	}
	length, m := protowire.ConsumeVarint(b[n:])
	return m > 0 && bits.Len64(length) < 63 && int64(n+m)+int64(length) == int64(len(b))
}
