package storedjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// ErrNotCanonical says that JSON is not written as Kubernetes writes it.
var ErrNotCanonical = errors.New("JSON is not written as Kubernetes writes it")

// Lexer steps through canonical JSON, from the beginning to the end of a text.
//
// Its methods read one token or one value each and return parts of the text, which the
// caller must not change. There are no errors to check at each step. A Lexer that meets
// something that it was not asked for goes to the end of the text, where all further
// methods read nothing. The caller asks once, with Done, whether all was as expected.
//
// An object or a list is read in a loop:
//
//	for ok := l.BeginObject(); ok; ok = l.NextField() {
//		name := l.Name()
//		value := l.Value()
//	}
//
// The loop reads each value exactly once, by any method. The zero Lexer reads an empty
// text. A Lexer allocates nothing and is not safe for concurrent use.
type Lexer struct {
	text []byte
	// pos is the offset of the next token.
	pos int
	// refused says that something was not as expected.
	refused bool
}

// NewLexer returns a Lexer at the beginning of a text, which it keeps.
func NewLexer(text []byte) Lexer { return Lexer{text: text} }

// Refuse records that the text is not what the caller can read, and goes to its end.
func (l *Lexer) Refuse() { l.refused, l.pos = true, len(l.text) }

// RefuseIf is Refuse on a condition.
func (l *Lexer) RefuseIf(condition bool) {
	if condition {
		l.Refuse()
	}
}

// Refused reports whether something was not as expected.
func (l *Lexer) Refused() bool { return l.refused }

// Done reports whether the whole text was read and was as expected.
func (l *Lexer) Done() bool { return !l.refused && l.pos == len(l.text) }

// Offset returns where the next token begins, in bytes from the beginning of the text.
func (l *Lexer) Offset() int { return l.pos }

// Text returns a part of the text.
func (l *Lexer) Text(from, to int) []byte { return l.text[from:to] }

// Peek returns the next byte. It returns 0 at the end of the text.
func (l *Lexer) Peek() byte {
	if l.pos < len(l.text) {
		return l.text[l.pos]
	}
	return 0
}

// Take steps over a byte if it is the next one.
func (l *Lexer) Take(c byte) bool {
	if l.pos < len(l.text) && l.text[l.pos] == c {
		l.pos++
		return true
	}
	return false
}

// Expect steps over a byte, which must be the next one.
func (l *Lexer) Expect(c byte) {
	if !l.Take(c) {
		l.Refuse()
	}
}

// BeginObject steps into an object and reports whether it has a field.
func (l *Lexer) BeginObject() bool { return l.begin('{', '}') }

// NextField reports whether another field follows the one that was read.
func (l *Lexer) NextField() bool { return l.next('}') }

// BeginList steps into a list and reports whether it has an item.
func (l *Lexer) BeginList() bool { return l.begin('[', ']') }

// NextItem reports whether another item follows the one that was read.
func (l *Lexer) NextItem() bool { return l.next(']') }

func (l *Lexer) begin(opening, closing byte) bool {
	l.Expect(opening)
	return !l.refused && !l.Take(closing)
}

func (l *Lexer) next(closing byte) bool {
	if l.refused || l.Take(closing) {
		return false
	}
	l.Expect(',')
	return !l.refused
}

// Name reads a field's name and the colon after it. Names that contain escapes are
// refused, so that the result can be compared with other names.
func (l *Lexer) Name() []byte {
	name := l.QuotedText()
	l.Expect(':')
	l.RefuseIf(bytes.IndexByte(name, '\\') >= 0)
	return name
}

// QuotedText reads a string and returns what stands between its quotes, escapes included.
// See Unquote.
func (l *Lexer) QuotedText() []byte {
	from := l.pos + 1
	if !l.Take('"') {
		l.Refuse()
		return nil
	}
	end := closingQuote(l.text, from)
	if end < 0 {
		l.Refuse()
		return nil
	}
	l.pos = end + 1
	return l.text[from:end]
}

// closingQuote returns the offset of the quote that ends the string whose inside begins
// at from. It returns -1 if there is none. A quote after an odd number of backslashes
// ends nothing.
func closingQuote(text []byte, from int) int {
	for at := from; ; {
		n := bytes.IndexByte(text[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		before := at
		for before > from && text[before-1] == '\\' {
			before--
		}
		if (at-before)%2 == 0 {
			return at
		}
		at++
	}
}

// Value steps over a value of any type and returns its text. It refuses blanks, and otherwise
// looks at brackets, commas and strings only.
func (l *Lexer) Value() []byte {
	n := valueLength(l.text[l.pos:])
	if n <= 0 {
		l.Refuse()
		return nil
	}
	l.pos += n
	return l.text[l.pos-n : l.pos]
}

// valueLength returns the length of the value at the beginning of a text. It returns 0 if
// there is none, and -1 if the value has blanks or no end.
func valueLength(text []byte) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := closingQuote(text, at+1)
			if end < 0 {
				return -1
			}
			if at = end; depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth--; depth {
			case -1:
				return at
			case 0:
				return at + 1
			}
		case ',':
			if depth == 0 {
				return at
			}
		case ' ', '\t', '\r', '\n':
			return -1
		}
	}
	if depth > 0 {
		return -1
	}
	return len(text)
}

// Word steps over one of the words true, false and null if it is the next token.
func (l *Lexer) Word(word string) bool {
	if bytes.HasPrefix(l.text[l.pos:], []byte(word)) {
		l.pos += len(word)
		return true
	}
	return false
}

const (
	// floatDigits is how many decimal digits any float64 keeps.
	floatDigits = 15
	// intDigits is how many decimal digits any int64 holds.
	intDigits = 18
)

// Number steps over a number that Kubernetes' types would write again as it is: an int64
// if it must be whole, a float64 otherwise. Other numbers are refused.
func (l *Lexer) Number(whole bool) {
	from := l.pos
	for l.pos < len(l.text) && bytes.IndexByte([]byte("0123456789+-.eE"), l.text[l.pos]) >= 0 {
		l.pos++
	}
	token := l.text[from:l.pos]
	digits := bytes.TrimPrefix(token, []byte("-"))
	most := floatDigits
	if whole {
		most = intDigits
	}
	if len(digits) > 0 && len(digits) <= most && len(bytes.Trim(digits, "0123456789")) == 0 {
		l.RefuseIf(digits[0] == '0' && len(token) > 1)
		return
	}
	value, err := strconv.ParseFloat(string(token), 64)
	if err != nil || whole {
		l.Refuse()
		return
	}
	again, err := json.Marshal(value)
	l.RefuseIf(err != nil || !bytes.Equal(again, token))
}
