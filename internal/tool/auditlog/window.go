package auditlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	// firstWindow is the size of the window at first, in bytes. It grows up to maxRecord, so
	// records that are longer are lost. Lists of records may have any length.
	firstWindow = 1 << 20
	maxRecord   = 16 << 20
)

// window is the part of a text that is held: bytes that were consumed, and from pos on the record
// that is read.
type window struct {
	// source is nil for a text that is held as a whole.
	source io.Reader
	held   []byte
	pos    int
	// lineEnd is the index in held at which the line at pos ends, or len(held) if the line does
	// not end in held. It is -1 if it is unknown.
	lineEnd int
	// read is the number of bytes that came from source, and lines the number of line ends
	// before pos.
	read, lines int64
	// ended says that source has no more bytes. err is its error, nil at a regular end.
	ended bool
	err   error
}

// unfinishedLine reports whether the text ends without a line end.
func (w *window) unfinishedLine() bool { return len(w.held) > 0 && w.held[len(w.held)-1] != '\n' }

const whiteSpace = " \n\t\r"

// skipSpace consumes white space. It returns the next byte, without consuming it. more is false
// at the end of the text.
func (w *window) skipSpace() (c byte, more bool) {
	for {
		held := w.held[w.pos:]
		rest := bytes.TrimLeft(held, whiteSpace)
		w.consume(len(held) - len(rest))
		if len(rest) > 0 {
			return rest[0], true
		}
		if !w.fill() {
			return 0, false
		}
	}
}

// beginsList reports whether a bracket begins a list of records, and no text.
func (w *window) beginsList() bool {
	for {
		if rest := bytes.TrimLeft(w.held[w.pos+1:], whiteSpace); len(rest) > 0 {
			return rest[0] == '{' || rest[0] == '[' || rest[0] == ']'
		}
		if !w.fill() {
			return false
		}
	}
}

// consume moves pos on by n bytes, and counts line ends.
func (w *window) consume(n int) {
	end := w.pos + n
	if w.lineEnd >= 0 && end <= w.lineEnd {
		w.pos = end
		return
	}
	w.lines += int64(bytes.Count(w.held[w.pos:end], []byte{'\n'}))
	w.pos, w.lineEnd = end, -1
}

// endOfLine returns the index in held at which the line at pos ends, or len(held).
func (w *window) endOfLine() int {
	if w.lineEnd < 0 {
		w.lineEnd = len(w.held)
		if i := bytes.IndexByte(w.held[w.pos:], '\n'); i >= 0 {
			w.lineEnd = w.pos + i
		}
	}
	return w.lineEnd
}

// fillMore doubles the bytes that are held from pos on, if the text has them. It returns false if
// it has read nothing.
func (w *window) fillMore() (read bool) {
	held := len(w.held) - w.pos
	for len(w.held)-w.pos < 2*held && w.fill() {
		read = true
	}
	return read
}

// fill reads more of the text. It returns false if there is none, or no room for it.
func (w *window) fill() bool {
	if w.ended || w.source == nil {
		w.ended = true
		return false
	}
	if w.held == nil {
		w.held = make([]byte, 0, firstWindow)
	}
	if w.pos > 0 && len(w.held) == cap(w.held) {
		w.held, w.pos, w.lineEnd = w.held[:copy(w.held, w.held[w.pos:])], 0, -1
	}
	switch size := cap(w.held); {
	case len(w.held) < size:
	case size >= maxRecord:
		return false
	default:
		w.held = slices.Grow(w.held, size)[: len(w.held) : 2*size]
	}
	before := len(w.held)
	n, err := w.source.Read(w.held[before:cap(w.held)])
	w.held = w.held[:before+n]
	w.read += int64(n)
	if w.lineEnd == before {
		w.lineEnd = -1
	}
	if err != nil {
		w.ended = true
		if !errors.Is(err, io.EOF) {
			w.err = err
		}
	}
	return n > 0 || !w.ended
}
