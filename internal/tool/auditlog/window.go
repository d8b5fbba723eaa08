package auditlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	// firstWindow is how much of a text is held at first. maxRecord bounds it, and so the
	// records: longer ones are left out. Lists of records may have any length.
	firstWindow = 1 << 20
	maxRecord   = 16 << 20
)

// window is the part of a text that is held: from the record at pos on, and before it what
// was consumed.
type window struct {
	// source is nil for a text that is held as a whole.
	source io.Reader
	held   []byte
	pos    int
	// lineEnd is where the line at pos ends in what is held: -1 if that is not known, and the
	// length of it if it does not end there.
	lineEnd int
	// read are the bytes that were read, lines the line ends before pos.
	read, lines int64
	// ended says that the source has no more. err is its error.
	ended bool
	err   error
}

// unfinishedLine reports whether the text ends without a line end.
func (w *window) unfinishedLine() bool { return len(w.held) > 0 && w.held[len(w.held)-1] != '\n' }

const whiteSpace = " \n\t\r"

// peek returns the next byte that is no white space. more is false at the end.
func (w *window) peek() (c byte, more bool) {
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

func (w *window) consume(n int) {
	end := w.pos + n
	if w.lineEnd >= 0 && end <= w.lineEnd {
		w.pos = end
		return
	}
	w.lines += int64(bytes.Count(w.held[w.pos:end], []byte{'\n'}))
	w.pos, w.lineEnd = end, -1
}

// endOfLine returns where the line at pos ends in the window, or the length of what is held.
func (w *window) endOfLine() int {
	if w.lineEnd < 0 {
		w.lineEnd = len(w.held)
		if i := bytes.IndexByte(w.held[w.pos:], '\n'); i >= 0 {
			w.lineEnd = w.pos + i
		}
	}
	return w.lineEnd
}

// fillMore reads as much as is held of the record at pos, at the least, if there is so much.
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
