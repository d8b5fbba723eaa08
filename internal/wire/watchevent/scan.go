package watchevent

import (
	"bytes"
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Member returns the value of a member of a JSON object, as it is written. The text may be
// cut off: what lies beyond is not found, and the value may be cut off too.
func Member(object []byte, name string) []byte {
	i := skipSpace(object, 0)
	if i >= len(object) || object[i] != '{' {
		return nil
	}
	for i++; ; {
		if i = skipSpace(object, i); i >= len(object) || object[i] != '"' {
			return nil
		}
		end := skipString(object, i)
		if end > len(object) {
			return nil
		}
		key := object[i+1 : end-1]
		if i = skipSpace(object, end); i >= len(object) || object[i] != ':' {
			return nil
		}
		if i = skipSpace(object, i+1); i >= len(object) {
			return nil
		}
		if string(key) == name {
			return object[i:min(skipValue(object, i), len(object))]
		}
		if i = skipSpace(object, skipValue(object, i)); i >= len(object) || object[i] != ',' {
			return nil
		}
		i++
	}
}

// Text returns what is between the quotes of a JSON string that needs no escapes. Resource
// versions, types and tokens need none.
func Text(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the position after the string that begins at i. It is beyond the text
// if the string is cut off.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		at := bytes.IndexAny(b[i:], `"\`)
		if at < 0 {
			break
		}
		if i += at; b[i] == '"' {
			return i + 1
		}
		i += 2
	}
	return len(b) + 1
}

// skipValue returns the position after the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of a number in front
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Field returns the first value of a length-delimited field of a protobuf message. The
// message may be cut off: the value then is cut off as well, or nil.
func Field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
				return nil
			}
			message = message[size:]
			continue
		}
		length, size := binary.Uvarint(message)
		if size <= 0 {
			return nil
		}
		end := len(message)
		if length < uint64(end-size) {
			end = size + int(length)
		}
		if n == number {
			return message[size:end]
		}
		message = message[end:]
	}
	return nil
}

var protobufMagic = []byte("k8s\x00")

// Unwrap returns the message in Kubernetes' envelope.
func Unwrap(b []byte) []byte {
	inner, ok := bytes.CutPrefix(b, protobufMagic)
	if !ok {
		return nil
	}
	return Field(inner, 2)
}
