package auditlog

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// lexer walks over JSON. Each method consumes one token or value. After an error the methods
// consume nothing more, and return zero values.
//
// The lexer is written for speed: it searches strings for their closing quote only, and does not
// check numbers and words. So it accepts more than JSON. It refuses the signs of a damaged line:
// a line end in a string, and members without a comma between them.
type lexer struct {
	data []byte
	pos  int
	bad  bool
	// short says that the error is at the end of the data: with more data it may be good.
	short bool
	depth int // of nested values that are skipped
	// text has the strings that contained escapes. The lexer owns the bytes, and the next
	// object overwrites them.
	text []byte
}

// peek returns the next byte that is not white space, or 0 at the end.
func (l *lexer) peek() byte {
	for l.pos < len(l.data) {
		switch c := l.data[l.pos]; c {
		case ' ', '\t', '\n', '\r':
			l.pos++
		default:
			return c
		}
	}
	return 0
}

// fail records an error at pos, and ends the text.
func (l *lexer) fail() {
	l.short = l.short || !l.bad && l.pos >= len(l.data)
	l.bad, l.pos = true, len(l.data)
}

// take consumes a byte, which must be c.
func (l *lexer) take(c byte) {
	if l.peek() != c {
		l.fail()
		return
	}
	l.pos++
}

// begin consumes the opening byte of an object or array. It reports whether there is one.
func (l *lexer) begin(open byte) bool {
	if l.bad || l.peek() != open {
		return false
	}
	l.pos++
	return true
}

// more reports whether another member follows in an object or array that ends with last. It
// consumes a comma, or the end.
func (l *lexer) more(last byte, first bool) bool {
	if l.bad {
		return false
	}
	switch c := l.peek(); {
	case c == last:
		l.pos++
		return false
	case first:
		return true
	case c == ',':
		l.pos++
		return true
	}
	l.fail()
	return false
}

// key consumes the name of a member and its colon. It returns the name with its escapes.
func (l *lexer) key() []byte {
	name, _ := l.rawString()
	l.take(':')
	return name
}

// string consumes a string and returns its characters, which are valid until the next object.
func (l *lexer) string() []byte {
	raw, escaped := l.rawString()
	if !escaped {
		return raw
	}
	return l.unescape(raw)
}

// rawString consumes a string. It returns the bytes between the quotes, and whether they have
// escapes.
func (l *lexer) rawString() (raw []byte, escaped bool) {
	if l.peek() != '"' {
		l.fail()
		return nil, false
	}
	start := l.pos + 1
	for at := start; ; {
		i := bytes.IndexByte(l.data[at:], '"')
		if i < 0 {
			if bytes.IndexByte(l.data[start:], '\n') < 0 {
				l.pos = len(l.data)
			}
			l.fail()
			return nil, false
		}
		end := at + i
		raw = l.data[start:end]
		if slashes := len(raw) - len(bytes.TrimRight(raw, `\`)); slashes%2 == 1 {
			at = end + 1
			continue
		}
		if bytes.IndexByte(raw, '\n') >= 0 {
			l.fail()
			return nil, false
		}
		l.pos = end + 1
		return raw, bytes.IndexByte(raw, '\\') >= 0
	}
}

// unescape appends a string with escapes to text, and returns its characters.
func (l *lexer) unescape(raw []byte) []byte {
	start := len(l.text)
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			i = len(raw)
		}
		l.text = append(l.text, raw[:i]...)
		if raw = raw[i:]; len(raw) > 0 {
			raw = l.escape(raw)
		}
	}
	return l.text[start:len(l.text):len(l.text)]
}

// plainEscapes maps the character after a backslash to the character that the escape stands for.
var plainEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends the character of the escape at the start of raw to text. It returns the
// bytes after the escape.
func (l *lexer) escape(raw []byte) []byte {
	if len(raw) < 2 {
		l.fail()
		return nil
	}
	if c := plainEscapes[raw[1]]; c != 0 {
		l.text = append(l.text, c)
		return raw[2:]
	}
	r, ok := hexEscape(raw)
	if !ok {
		l.fail()
		return nil
	}
	raw = raw[6:]
	if utf16.IsSurrogate(r) {
		second, ok := hexEscape(raw)
		pair := utf16.DecodeRune(r, second)
		if r = utf8.RuneError; ok && pair != utf8.RuneError {
			r, raw = pair, raw[6:]
		}
	}
	l.text = utf8.AppendRune(l.text, r)
	return raw
}

// hexEscape returns the UTF-16 code unit of \uXXXX at the start of raw.
func hexEscape(raw []byte) (r rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}

// skip consumes a value, and returns its length.
func (l *lexer) skip() int {
	c := l.peek()
	start := l.pos
	switch c {
	case '"':
		l.rawString()
	case '{', '[':
		l.skipNested()
	case 0, ',', ':', '}', ']':
		l.fail()
	default:
		for l.pos < len(l.data) && !endsScalar[l.data[l.pos]] {
			l.pos++
		}
	}
	return l.pos - start
}

var endsScalar = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true}

// maxDepth bounds the depth of nested values, and with it the stack of skipNested.
const maxDepth = 1000

// skipNested consumes an object or array with all that is in it.
func (l *lexer) skipNested() {
	if l.depth++; l.depth > maxDepth {
		l.fail()
		return
	}
	object := l.begin('{')
	last := byte('}')
	if !object {
		l.begin('[')
		last = ']'
	}
	for first := true; l.more(last, first); first = false {
		if object {
			l.key()
		}
		l.skip()
	}
	l.depth--
}

// number consumes a number. It returns 0 for a number that is not an integer from 0 to 2³¹-1.
func (l *lexer) number() int {
	start := l.pos
	l.skip()
	n, err := strconv.ParseUint(string(bytes.TrimSpace(l.data[start:l.pos])), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
