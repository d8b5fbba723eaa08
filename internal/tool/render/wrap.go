package render

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a line of text between words, so that no line has more than width characters. All
// lines but the first begin with indent. Longer words stay whole. A width of 0 is unbounded.
func Wrap(text, indent string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+length > width && used > len(indent):
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += length
	}
	return b.String()
}

// Shorten cuts a text in its middle to a number of characters, at least 3, because names differ in
// their starts and ends.
func Shorten(text string, length int) string {
	letters := []rune(text)
	if len(letters) <= length {
		return text
	}
	end := (length - 1) / 3
	return string(letters[:length-1-end]) + "…" + string(letters[len(letters)-end:])
}
