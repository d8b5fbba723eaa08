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
	at       int
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
			return s.depth == 0 && s.at == len(s.text)
		}
	}
}

// value checks a scalar, an empty object or list, or the beginning of another up to its
// first value. opened reports the last.
func (s *jsonScanner) value() (opened, ok bool) {
	if s.at >= len(s.text) {
		return false, false
	}
	switch b := s.text[s.at]; b {
	case '{', '[':
		s.at++
		if s.at < len(s.text) && s.text[s.at] == b+2 { // the codes of ] and } are those of [ and { plus 2
			s.at++
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
	for s.depth > 0 && s.at < len(s.text) {
		object := s.inObject&1 == 1
		switch b := s.text[s.at]; {
		case b == ',':
			s.at++
			return !object || s.key()
		case b == '}' && object, b == ']' && !object:
			s.at++
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
	if !s.string() || s.at >= len(s.text) || s.text[s.at] != ':' {
		s.depth = maxDepth + 1
		return false
	}
	s.at++
	return true
}

func (s *jsonScanner) word(word string) bool {
	if len(s.text)-s.at < len(word) || string(s.text[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// string checks a string without characters that encoding/json escapes. The first byte of
// U+2028 and U+2029 is refused, with all runes that begin so. Most strings are short, so this
// looks at one byte at a time.
func (s *jsonScanner) string() bool {
	const lineSeparator = 0xe2
	text, i := s.text, s.at+1
	if s.at >= len(text) || text[s.at] != '"' {
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
			s.at = i + 1
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

// escapeLength returns the length of the escape at the beginning of text, 0 if it is
// malformed.
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
	if s.at < len(s.text) && s.text[s.at] == b {
		s.at++
		return true
	}
	return false
}

func (s *jsonScanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}
