package storedjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// EscapeMode says which characters of a string are written as escapes. Either way a
// decoder reads the same string.
type EscapeMode uint8

const (
	// EscapeHTML escapes as encoding/json does by default, and so as Kubernetes stores
	// objects: "<", ">", "&" and two line separators as well.
	EscapeHTML EscapeMode = iota
	// EscapeMinimal escapes no more than RFC 8259 demands, as Kubernetes writes OpenAPI.
	EscapeMinimal
)

// plainASCII has the characters that are written as they are, by EscapeMode.
var plainASCII = func() (tables [2][utf8.RuneSelf]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		tables[EscapeMinimal][c] = c != '"' && c != '\\'
		tables[EscapeHTML][c] = tables[EscapeMinimal][c] && c != '<' && c != '>' && c != '&'
	}
	return tables
}()

// AppendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD, as in
// encoding/json.
func AppendString(dst []byte, s string, escaping EscapeMode) []byte {
	plain := &plainASCII[escaping]
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if !plain[c] {
				dst = appendEscape(append(dst, s[start:i]...), c)
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		invalid := r == utf8.RuneError && size == 1
		if invalid || escaping == EscapeHTML && (r == '\u2028' || r == '\u2029') {
			dst = append(dst, s[start:i]...)
			if escaping == EscapeHTML {
				dst = fmt.Appendf(dst, `\u%04x`, r)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

const hexDigits = "0123456789abcdef"

// appendEscape appends the escape of an ASCII character.
func appendEscape(dst []byte, c byte) []byte {
	const short, letters = "\"\\\b\f\n\r\t", `"\bfnrt`
	if i := strings.IndexByte(short, c); i >= 0 {
		return append(dst, '\\', letters[i])
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendMinimal appends a stored JSON value, or the inside of a string, with escapes as
// EscapeMinimal has them. The value must not have surrogates (HasSurrogates).
func AppendMinimal(dst, value []byte) []byte {
	for {
		i := bytes.IndexByte(value, '\\')
		if i < 0 || i+1 == len(value) {
			return append(dst, value...)
		}
		dst = append(dst, value[:i]...)
		dst, value = appendMinimalEscape(dst, value[i:])
	}
}

// appendMinimalEscape appends the character that the escape at the beginning of value
// stands for, escaped only if it must be. It returns what follows the escape.
func appendMinimalEscape(dst, value []byte) (appended, rest []byte) {
	c := value[1]
	if c != 'u' {
		if c == '/' {
			return append(dst, c), value[2:]
		}
		return append(dst, '\\', c), value[2:]
	}
	r, ok := escapedRune(value)
	switch {
	case !ok:
		return append(dst, '\\', c), value[2:]
	case r == '"' || r == '\\' || r < ' ':
		return appendEscape(dst, byte(r)), value[6:]
	}
	return utf8.AppendRune(dst, r), value[6:]
}

// escapedRune reads an escape of the form \uXXXX at the beginning of value.
func escapedRune(value []byte) (rune, bool) {
	if len(value) < 6 {
		return 0, false
	}
	var r rune
	for _, c := range value[2:6] {
		digit := strings.IndexByte(hexDigits, c|0x20)
		if digit < 0 {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

// HasSurrogates reports whether a text has escapes of the form \uDXXX, which write one
// character in two halves. Kubernetes writes none, but a client's own JSON may have them.
func HasSurrogates(text []byte) bool { return hasEscape(text, `\ud`) || hasEscape(text, `\uD`) }

// hasEscape reports whether a text has an escape, whose backslash is not itself escaped.
func hasEscape(text []byte, escape string) bool {
	for at := 0; ; at++ {
		i := bytes.Index(text[at:], []byte(escape))
		if i < 0 {
			return false
		}
		before := at + i
		for at = before; before > 0 && text[before-1] == '\\'; before-- {
		}
		if (at-before)%2 == 0 {
			return true
		}
	}
}

// Unquote decodes a string, given what stands between its quotes. It reports false if
// that is not the inside of a JSON string.
func Unquote(quoted []byte) (string, bool) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted), true
	}
	var s string
	if err := json.Unmarshal(fmt.Appendf(nil, `"%s"`, quoted), &s); err != nil {
		return "", false
	}
	return s, true
}
