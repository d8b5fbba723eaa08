package transcode

// maxDepth bounds the nesting of the JSON objects that isCompactObject accepts.
const maxDepth = 64

// isCompactObject reports whether text is a JSON object that encoding/json would copy as it
// is, when it writes the result of a MarshalJSON. Such text is valid, and has no space
// outside of strings and no characters that encoding/json escapes.
func isCompactObject(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	s := jsonScanner{text: text}
	return s.document()
}

// jsonScanner checks JSON. It does not recurse: inObject has a bit for each open bracket.
type jsonScanner struct {
	text     []byte
	pos      int
	inObject uint64
	depth    int
}

// document checks one value and that nothing follows.
func (s *jsonScanner) document() bool {
	for {
		// A value begins here.
		opened, ok := s.value()
		if !ok {
			return false
		}
		if opened {
			continue
		}
		// A value has ended: what surrounds it goes on or ends.
		if !s.next() {
			return s.depth == 0 && s.pos == len(s.text)
		}
	}
}

// value checks a scalar, an empty object or list, or the beginning of another up to its
// first value. opened reports the last.
func (s *jsonScanner) value() (opened, ok bool) {
	if s.pos >= len(s.text) {
		return false, false
	}
	switch b := s.text[s.pos]; b {
	case '{', '[':
		s.pos++
		if s.pos < len(s.text) && s.text[s.pos] == b+2 { // ] is [ plus 2, and } is { plus 2
			s.pos++
			return false, true
		}
		if s.depth == maxDepth {
			return false, false
		}
		s.depth++
		s.inObject <<= 1
		if b == '{' {
			s.inObject |= 1
			return true, s.key()
		}
		return true, true
	case '"':
		return false, s.string()
	case 't':
		return false, s.word("true")
	case 'f':
		return false, s.word("false")
	case 'n':
		return false, s.word("null")
	}
	return false, s.number()
}

// next goes past a value that has ended, and past all brackets that end with it. It returns
// false at the end of the outermost, or of anything malformed.
func (s *jsonScanner) next() bool {
	for s.depth > 0 && s.pos < len(s.text) {
		object := s.inObject&1 == 1
		switch b := s.text[s.pos]; {
		case b == ',':
			s.pos++
			return !object || s.key()
		case b == '}' && object, b == ']' && !object:
			s.pos++
			s.depth--
			s.inObject >>= 1
		default:
			s.depth = maxDepth + 1
			return false
		}
	}
	return false
}

// key checks an object's key and the colon.
func (s *jsonScanner) key() bool {
	if !s.string() || s.pos >= len(s.text) || s.text[s.pos] != ':' {
		s.depth = maxDepth + 1
		return false
	}
	s.pos++
	return true
}

func (s *jsonScanner) word(word string) bool {
	if len(s.text)-s.pos < len(word) || string(s.text[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// string checks a string without characters that encoding/json escapes. The first byte of
// U+2028 and U+2029 is refused, with all runes that begin so. Most strings are short, so this
// looks at one byte at a time.
func (s *jsonScanner) string() bool {
	const lineSeparator = 0xe2
	text, i := s.text, s.pos+1
	if s.pos >= len(text) || text[s.pos] != '"' {
		return false
	}
	for i < len(text) {
		b := text[i]
		if plain[b] {
			i++
			continue
		}
		switch {
		case b == '"':
			s.pos = i + 1
			return true
		case b == '\\':
			n := escapeLength(text[i:])
			if n == 0 {
				return false
			}
			i += n
		case b < 0x80 || b == lineSeparator:
			return false
		default:
			i++
		}
	}
	return false
}

// escapeLength returns the length of the escape at the beginning of text. It returns 0 if
// the escape is malformed.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, b := range text[2:6] {
			if !(b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// number checks a number.
func (s *jsonScanner) number() bool {
	s.skip('-')
	if !s.skip('0') && !s.digits() {
		return false
	}
	if s.skip('.') && !s.digits() {
		return false
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		return s.digits()
	}
	return true
}

func (s *jsonScanner) skip(b byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == b {
		s.pos++
		return true
	}
	return false
}

func (s *jsonScanner) digits() bool {
	start := s.pos
	for s.pos < len(s.text) && s.text[s.pos] >= '0' && s.text[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}
