package storedjson

import (
	"encoding/json"
	"strconv"
)

// Writer appends JSON to Text, which the caller may set before and takes afterwards. It writes
// no blanks. The caller calls Begin and End, a method for a value after each name, and Comma
// before each item of a list. The zero Writer escapes as Kubernetes stores objects.
type Writer struct {
	Text []byte
	// Escaping is how strings are escaped.
	Escaping EscapeMode
	// Err is the first error of Marshal. If it is not nil, Text is useless.
	Err error
}

// Begin opens an object with "{" or a list with "[".
func (w *Writer) Begin(bracket byte) { w.Text = append(w.Text, bracket) }

// End closes an object with "}" or a list with "]".
func (w *Writer) End(bracket byte) { w.Text = append(w.Text, bracket) }

// Comma separates an item or a field from the one before, if there is one. Name, PlainName and
// Entries call it themselves.
func (w *Writer) Comma() {
	if n := len(w.Text); n > 0 && w.Text[n-1] != '{' && w.Text[n-1] != '[' {
		w.Text = append(w.Text, ',')
	}
}

// Name begins a field.
func (w *Writer) Name(name string) {
	w.Comma()
	w.String(name)
	w.Text = append(w.Text, ':')
}

// PlainName begins a field whose name needs no escapes.
func (w *Writer) PlainName(name string) {
	w.Comma()
	w.Text = append(w.Text, '"')
	w.Text = append(w.Text, name...)
	w.Text = append(w.Text, '"', ':')
}

// Entries appends fields or items that are JSON already, separated by commas.
func (w *Writer) Entries(text string) {
	if text != "" {
		w.Comma()
		w.Text = append(w.Text, text...)
	}
}

// Raw appends a value that is JSON already.
func (w *Writer) Raw(value string) { w.Text = append(w.Text, value...) }

// Stored appends a value of a stored text, with the Writer's escapes.
func (w *Writer) Stored(value []byte) {
	if w.Escaping == EscapeMinimal {
		w.Text = AppendMinimal(w.Text, value)
	} else {
		w.Text = append(w.Text, value...)
	}
}

// StoredString appends a string of a stored text, given what stands between its quotes.
func (w *Writer) StoredString(quoted []byte) {
	w.Text = append(w.Text, '"')
	w.Stored(quoted)
	w.Text = append(w.Text, '"')
}

// String appends a string.
func (w *Writer) String(s string) { w.Text = AppendString(w.Text, s, w.Escaping) }

// Bool appends a boolean.
func (w *Writer) Bool(b bool) { w.Text = strconv.AppendBool(w.Text, b) }

// Int appends a whole number.
func (w *Writer) Int(n int64) { w.Text = strconv.AppendInt(w.Text, n, 10) }

// Marshal appends any value as encoding/json writes it.
func (w *Writer) Marshal(v any) {
	text, err := json.Marshal(v)
	if w.Err == nil {
		w.Err = err
	}
	w.Text = append(w.Text, text...)
}
