package encode

import (
	"bytes"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// Framing is how a media type joins items to a list.
type Framing int

const (
	// JSON is one line: {…,"items":[a,b]…}.
	JSON Framing = iota
	// TableJSON is a table in one line: {…,"rows":[a,b]}.
	TableJSON
	// PrettyJSON is indented by two spaces, as for curl and browsers.
	PrettyJSON
	// Protobuf is Kubernetes' envelope: the magic number, then runtime.Unknown,
	// whose field 2 is the list: metadata in field 1, items in field 2.
	Protobuf
	// WatchJSON and WatchProtobuf have frames of watch events for items, and nothing
	// around or between them.
	WatchJSON
	WatchProtobuf
)

// listEnvelope is an encoded list without its items.
type listEnvelope struct {
	// before ends where the first item begins, after begins where the last ends.
	before, after []byte
	// list is the protobuf message without its items. It is nil for other framings.
	list []byte
}

const (
	unknownRaw protowire.Number = 2
	listItems  protowire.Number = 2
)

var protobufMagic = []byte("k8s\x00")

func (f Framing) separator() []byte {
	switch f {
	case JSON, TableJSON:
		return []byte(",")
	case PrettyJSON:
		return []byte(",\n")
	}
	return nil
}

// brackets returns what opens and closes the items of a list, and what a list without
// items may have in their place.
func (f Framing) brackets() (open, shut string, empty []string) {
	switch f {
	case PrettyJSON:
		return "\"items\": [\n", "\n  ]", []string{`"items": []`, `"items": null`}
	case TableJSON:
		return `"rows":[`, "]", []string{`"rows":[]`, `"rows":null`}
	}
	return `"items":[`, "]", []string{`"items":[]`, `"items":null`}
}

// split finds the envelope of an encoded list without items.
func (f Framing) split(encoded []byte) (listEnvelope, error) {
	if f == Protobuf {
		return splitProtobuf(encoded)
	}
	open, shut, empty := f.brackets()
	for _, none := range empty {
		// Only metadata and descriptions of a table's columns stand ahead of the items.
		// Neither has an unescaped quotation mark inside, so the first match is right.
		if i := bytes.Index(encoded, []byte(none)); i >= 0 {
			return listEnvelope{
				before: append(bytes.Clone(encoded[:i]), open...),
				after:  append([]byte(shut), encoded[i+len(none):]...),
			}, nil
		}
	}
	return listEnvelope{}, fmt.Errorf("%w: no %s", ErrShape, empty[0])
}

func splitProtobuf(encoded []byte) (listEnvelope, error) {
	rest, ok := bytes.CutPrefix(encoded, protobufMagic)
	if !ok {
		return listEnvelope{}, fmt.Errorf("%w: no magic number", ErrShape)
	}
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return listEnvelope{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(n))
		}
		if number == unknownRaw && kind == protowire.BytesType {
			list, m := protowire.ConsumeBytes(rest[n:])
			if m < 0 {
				return listEnvelope{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(m))
			}
			return listEnvelope{before: encoded[:len(encoded)-len(rest)], list: list, after: rest[n+m:]}, nil
		}
		m := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if m < 0 {
			return listEnvelope{}, fmt.Errorf("%w: %w", ErrShape, protowire.ParseError(m))
		}
		rest = rest[n+m:]
	}
	return listEnvelope{}, fmt.Errorf("%w: no list in the envelope", ErrShape)
}

// join makes the header and trailer of a list whose items, with separators, take size
// bytes.
func (f Framing) join(surrounding listEnvelope, size int64) (header, trailer []byte) {
	if f != Protobuf {
		return surrounding.before, surrounding.after
	}
	header = bytes.Clone(surrounding.before)
	header = protowire.AppendTag(header, unknownRaw, protowire.BytesType)
	header = protowire.AppendVarint(header, uint64(len(surrounding.list))+uint64(size))
	return append(header, surrounding.list...), surrounding.after
}

// cut returns the item of an encoded list of one. It is part of encoded. empty is the
// envelope of the same list without items.
func (f Framing) cut(encoded []byte, empty listEnvelope) ([]byte, error) {
	if f == Protobuf {
		one, err := splitProtobuf(encoded)
		if err != nil {
			return nil, err
		}
		item, ok := bytes.CutPrefix(one.list, empty.list)
		if !ok || !isItem(item) {
			return nil, fmt.Errorf("%w: the items do not follow the metadata", ErrShape)
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

// findEnvelope finds what surrounds an item in alone, the answer to a GET of the same object.
func (f Framing) findEnvelope(alone, item []byte) (listEnvelope, bool) {
	switch f {
	case Protobuf:
		surrounding, err := splitProtobuf(alone)
		body, n := consumeItem(item)
		if err != nil || n < 0 || !bytes.Equal(surrounding.list, body) {
			return listEnvelope{}, false
		}
		return listEnvelope{before: bytes.Clone(surrounding.before), after: bytes.Clone(surrounding.after)}, true
	case JSON:
		// An item is the object as it is sent alone, but typed items leave out the kind,
		// which stands first.
		if len(item) < 2 {
			return listEnvelope{}, false
		}
		if after, ok := bytes.CutPrefix(alone, item); ok {
			return listEnvelope{before: item[:1:1], after: bytes.Clone(after)}, true
		}
		i := bytes.LastIndex(alone, item[1:])
		if i < 2 || alone[i-1] != ',' {
			return listEnvelope{}, false
		}
		return listEnvelope{before: bytes.Clone(alone[:i]), after: bytes.Clone(alone[i+len(item)-1:])}, true
	}
	return listEnvelope{}, false
}

// namesKind reports whether an item names a kind that surrounding would name again. Typed
// items do not, except for objects that are stored as JSON without an apiVersion.
func (f Framing) namesKind(item []byte, surrounding *listEnvelope) bool {
	return f == JSON && len(surrounding.before) > 1 && (bytes.HasPrefix(item, []byte(`{"kind":`)) || bytes.HasPrefix(item, []byte(`{"apiVersion":`)))
}

// wrap makes the answer to a GET out of an item.
func (f Framing) wrap(item []byte, surrounding *listEnvelope) ([]byte, error) {
	if f != Protobuf {
		out := make([]byte, 0, len(surrounding.before)+len(item)+len(surrounding.after))
		out = append(out, surrounding.before...)
		out = append(out, item[1:]...)
		return append(out, surrounding.after...), nil
	}
	body, n := consumeItem(item)
	if n < 0 {
		return nil, fmt.Errorf("%w: no item", ErrShape)
	}
	out := make([]byte, 0, len(surrounding.before)+len(item)+len(surrounding.after)+8)
	out = append(out, surrounding.before...)
	out = protowire.AppendTag(out, unknownRaw, protowire.BytesType)
	out = protowire.AppendBytes(out, body)
	return append(out, surrounding.after...), nil
}

// consumeItem returns the object in a field of a list's items. n is its length on the wire,
// negative for an error.
func consumeItem(item []byte) (body []byte, n int) {
	if _, _, n = protowire.ConsumeTag(item); n < 0 {
		return nil, n
	}
	return protowire.ConsumeBytes(item[n:])
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
