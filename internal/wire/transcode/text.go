package transcode

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// plain says which bytes stand in a JSON string as they are, when HTML is escaped.
var plain = func() (table [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		table[b] = true
	}
	for _, b := range []byte(`"\<>&`) {
		table[b] = false
	}
	return table
}()

// appendText appends a JSON string as encoding/json writes it: with HTML escaped, and with
// U+FFFD in place of what is not UTF-8.
func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	n := plainPrefix(text)
	dst = append(dst, text[:n]...)
	for text = text[n:]; len(text) > 0; {
		var size int
		if text[0] < utf8.RuneSelf {
			dst, size = appendEscape(dst, text[0]), 1
		} else {
			dst, size = appendRune(dst, text)
		}
		text = text[size:]
		n := plainPrefix(text)
		dst = append(dst, text[:n]...)
		text = text[n:]
	}
	return append(dst, '"')
}

// plainPrefix returns how many bytes of text, from its beginning, stand in a JSON string as
// they are. It looks at eight bytes at a time.
func plainPrefix(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		if hasSpecial(binary.LittleEndian.Uint64(text[i:])) {
			break
		}
	}
	for i < len(text) && plain[text[i]] {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// hasSpecial reports whether one of eight bytes is not plain. It may also report so if none
// is, which costs time only.
func hasSpecial(word uint64) bool {
	special := word | // 0x80 and above
		(word - ones*' ') | // below the space
		hasZero(word^ones*'"') | hasZero(word^ones*'\\') | hasZero(word^ones*'&') |
		hasZero(word&^(ones*2)^ones*'<') // < and > differ in one bit
	return special&highs != 0
}

// hasZero sets the high bit of a byte that is zero.
func hasZero(word uint64) uint64 { return (word - ones) &^ word }

// appendEscape appends an ASCII character that must be escaped, or stands for itself.
func appendEscape(dst []byte, b byte) []byte {
	if plain[b] {
		return append(dst, b)
	}
	if i := bytes.IndexByte([]byte("\"\\\b\f\n\r\t"), b); i >= 0 {
		return append(dst, '\\', `"\bfnrt`[i])
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&0xf])
}

// appendRune appends the first rune of text. size is its length in text.
func appendRune(dst, text []byte) (_ []byte, size int) {
	r, size := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return append(dst, `\ufffd`...), 1
	case r == '\u2028' || r == '\u2029':
		return append(dst, '\\', 'u', '2', '0', '2', byte('8'+r-'\u2028')), size
	}
	return append(dst, text[:size]...), size
}
