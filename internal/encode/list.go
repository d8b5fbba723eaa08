package encode

import (
	"fmt"
	"io"
	"iter"

	"github.com/millrace/millrace/internal/resource"
)

// Span is a run of entries out of one group.
type Span struct {
	// Memo and Entries are the group's. Neither changes.
	Memo    *Memo
	Entries []*resource.Entry
	// From and To bound the run: Entries[From:To].
	From, To int
}

func (s Span) whole() bool { return s.From == 0 && s.To == len(s.Entries) }

// List is a LIST that is about to be written. It holds no items: its spans are
// walked anew for each question, and segments come from memos one at a time.
type List struct {
	// Form is the wire form.
	Form *Form
	// ResourceVersion is the list's.
	ResourceVersion int64
	// Spans are the items in order. The sequence can be walked more than once.
	Spans iter.Seq[Span]
	// Empty says that Spans yields nothing.
	Empty bool
}

// LongerThan reports whether the whole answer, uncompressed, has more than n
// bytes. It looks at no more segments than it must.
func (l *List) LongerThan(n int64) (bool, error) {
	size, err := l.sizeUpTo(n)
	if err != nil || size > n {
		return size > n, err
	}
	header, trailer, err := l.surroundings()
	if err != nil {
		return false, err
	}
	return size+int64(len(header)+len(trailer)) > n, nil
}

// sizeUpTo adds up the items' bytes with separators and stops beyond n.
func (l *List) sizeUpTo(n int64) (int64, error) {
	separator := int64(len(l.Form.cfg.Framing.separator()))
	var size int64
	for span := range l.Spans {
		if size > n {
			break
		}
		if size > 0 {
			size += separator
		}
		bytes, err := l.Form.spanSize(span)
		if err != nil {
			return 0, err
		}
		size += bytes
	}
	return size, nil
}

func (f *Form) spanSize(span Span) (int64, error) {
	if span.whole() {
		return f.size(span.Memo, span.Entries)
	}
	b, err := f.spanBytes(span)
	return int64(len(b)), err
}

func (f *Form) spanBytes(span Span) ([]byte, error) {
	w, err := f.plain(span.Memo, span.Entries)
	if err != nil {
		return nil, err
	}
	return w.items(span.From, span.To, len(f.cfg.Framing.separator())), nil
}

const noBound = 1<<63 - 1

func (l *List) surroundings() (header, trailer []byte, err error) {
	if l.Empty {
		header, err = l.Form.EmptyList(l.ResourceVersion)
		return header, nil, err
	}
	var size int64
	if l.Form.cfg.Framing == Protobuf {
		if size, err = l.sizeUpTo(noBound); err != nil {
			return nil, nil, err
		}
	}
	return l.Form.envelope(l.ResourceVersion, size)
}

// Write writes the answer, a segment at a time, without copying it. Nothing is
// written before the first segment is encoded. An error after the first byte
// leaves a truncated answer: the connection must be cut.
func (l *List) Write(w io.Writer) error {
	header, trailer, err := l.surroundings()
	if err != nil {
		return err
	}
	separator := l.Form.cfg.Framing.separator()
	// ahead stands before the next segment.
	ahead := header
	for span := range l.Spans {
		b, err := l.Form.spanBytes(span)
		if err != nil {
			return err
		}
		if err := writeAll(w, ahead, b); err != nil {
			return err
		}
		ahead = separator
	}
	if l.Empty {
		return writeAll(w, header)
	}
	return writeAll(w, trailer)
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write list: %w", err)
		}
	}
	return nil
}

// WriteGzip is Write for a client that accepts gzip. Whole groups go out as
// they were compressed once for everybody.
func (l *List) WriteGzip(w io.Writer) error {
	header, trailer, err := l.surroundings()
	if err != nil {
		return err
	}
	var sum gzipSum
	sum.addBytes(header)
	out := appendStored(append(make([]byte, 0, 512), gzipHeader...), header)
	separator := l.Form.cfg.Framing.separator()
	first := true
	for span := range l.Spans {
		if !first {
			sum.addBytes(separator)
			out = appendStored(out, separator)
		}
		first = false
		deflated, err := l.Form.deflateSpan(span, &sum)
		if err != nil {
			return err
		}
		if err := writeAll(w, out, deflated); err != nil {
			return err
		}
		out = out[:0]
	}
	sum.addBytes(trailer)
	return writeAll(w, sum.appendTrailer(appendStored(out, trailer)))
}

func (f *Form) deflateSpan(span Span, sum *gzipSum) ([]byte, error) {
	if span.whole() {
		packed, err := f.packed(span.Memo, span.Entries)
		if err != nil {
			return nil, err
		}
		sum.addSum(packed.crc, packed.size)
		return packed.bytes, nil
	}
	b, err := f.spanBytes(span)
	if err != nil {
		return nil, err
	}
	sum.addBytes(b)
	return deflate(b)
}

// Gzip compresses one answer as a whole, for objects that are sent once.
func Gzip(src []byte) ([]byte, error) {
	deflated, err := deflate(src)
	if err != nil {
		return nil, err
	}
	var sum gzipSum
	sum.addBytes(src)
	out := append(make([]byte, 0, len(deflated)+32), gzipHeader...)
	return sum.appendTrailer(append(out, deflated...)), nil
}
