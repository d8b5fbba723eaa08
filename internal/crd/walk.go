package crd

import (
	"bytes"
	"slices"
)

// What is stored is JSON as Kubernetes' encoder writes it: no blanks, no field twice,
// no escapes in the names of fields. The functions of this file find values in such
// text and do not look into them. Of other text they say that it is other.

// object are the fields of a JSON object, in order. They are parts of its text.
type object []struct{ name, value []byte }

// get returns the text of a field, nil if there is none or it is null.
func (o object) get(name string) []byte {
	if i := o.index(name); i >= 0 && string(o[i].value) != "null" {
		return o[i].value
	}
	return nil
}

func (o object) index(name string) int {
	return slices.IndexFunc(o, func(f struct{ name, value []byte }) bool { return string(f.name) == name })
}

// fieldsOf returns the fields of an object, false if it is not written as usual.
func fieldsOf(text []byte) (object, bool) {
	var fields object
	ok := eachPart(text, '{', '}', func(rest []byte) int {
		if len(rest) == 0 || rest[0] != '"' {
			return -1
		}
		end := endOfString(rest)
		if end < 0 || end == len(rest) || rest[end] != ':' {
			return -1
		}
		name, value := rest[1:end-1], rest[end+1:]
		n := endOfValue(value)
		if n < 0 || bytes.IndexByte(name, '\\') >= 0 || fields.index(string(name)) >= 0 {
			return -1
		}
		fields = append(fields, struct{ name, value []byte }{name, value[:n]})
		return end + 1 + n
	})
	return fields, ok
}

// itemsOf returns the items of a list, false if it is not written as usual.
func itemsOf(text []byte) ([][]byte, bool) {
	var items [][]byte
	ok := eachPart(text, '[', ']', func(rest []byte) int {
		n := endOfValue(rest)
		if n >= 0 {
			items = append(items, rest[:n])
		}
		return n
	})
	return items, ok
}

// eachPart visits what stands between commas. visit is given the rest of the text
// and returns how much of it is its part, -1 to stop.
func eachPart(text []byte, opening, closing byte, visit func(rest []byte) int) bool {
	if len(text) < 2 || text[0] != opening {
		return false
	}
	if text[1] == closing {
		return len(text) == 2
	}
	for at := 1; ; at++ {
		n := visit(text[at:])
		if n < 0 || at+n == len(text) {
			return false
		}
		switch at += n; text[at] {
		case closing:
			return at == len(text)-1
		case ',':
		default:
			return false
		}
	}
}

// endOfValue is the length of the value that a text begins with and something
// follows on, -1 if there is none. It looks at strings and brackets alone.
func endOfValue(text []byte) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			n := endOfString(text[at:])
			if n < 0 {
				return -1
			}
			if at += n - 1; depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth--; depth {
			case -1:
				return endOfWord(at)
			case 0:
				return at + 1
			}
		case ',':
			if depth == 0 {
				return endOfWord(at)
			}
		case ' ', '\t', '\r', '\n':
			return -1
		}
	}
	return -1
}

// endOfWord is where a number or a word ends, which has a letter at least.
func endOfWord(at int) int {
	if at == 0 {
		return -1
	}
	return at
}

// endOfString is the length of the string that a text begins with, quotes counted,
// -1 if it does not end.
func endOfString(text []byte) int {
	for at := 1; ; {
		n := bytes.IndexByte(text[at:], '"')
		if n < 0 {
			return -1
		}
		at += n + 1
		escapes := 0
		for i := at - 2; i > 0 && text[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}
