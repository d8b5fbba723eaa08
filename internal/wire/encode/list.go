package encode

import (
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/wire/deflate"
	"github.com/millrace/millrace/internal/wire/entry"
)

// EntryRun is a run of neighbouring entries of one group.
type EntryRun struct {
	// Memo and Entries are the whole group's. Entries must not be changed.
	Memo    *Memo
	Entries []*entry.Entry
	// From and To bound the run: Entries[From:To].
	From, To int
	// passed is the group's segment if a helper encoded it for this LIST alone.
	passed *passedSegment
}

func (s EntryRun) isWhole() bool { return s.From == 0 && s.To == len(s.Entries) }

// coversMost reports whether the run is more than half of its group. Then the whole group
// is encoded.
func (s EntryRun) coversMost() bool { return 2*(s.To-s.From) > len(s.Entries) }

// Meta is a list's metadata.
type Meta struct {
	// ResourceVersion is the revision that the list shows.
	ResourceVersion int64
	// Continue is the token of the next page. It is "" on the last page.
	Continue string
	// Remaining is how many objects the next pages hold. It is nil if that is not known.
	Remaining *int64
	// Shard is the shard selector of the list. It is "" for a list without one.
	Shard string
}

// List is a LIST that is about to be written. It holds no items: each method walks the
// runs again, and has one segment at a time, besides the segments that prefetcher encodes ahead.
// So the memory of a list does not depend on its length.
type List struct {
	// Form is the wire form.
	Form *Form
	// Meta is the list's metadata.
	Meta Meta
	// Runs are the items in order. The sequence can be walked more than once.
	Runs iter.Seq[EntryRun]
	// Empty says that Runs yields nothing.
	Empty bool
	// Now is the time from which ages in tables are counted.
	Now time.Time
	// Waited is called after each wait for memory, however short, with its beginning. It may
	// be nil.
	Waited func(since time.Time)
}

// LongerThan reports whether the whole answer, uncompressed, has more than n bytes. It
// encodes no more segments than it needs to know.
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

// Prepare encodes the rows of a table. So a row that cannot be made is known before the
// first byte, when the request can still be passed on. It does nothing for lists of items.
func (l *List) Prepare() error {
	if l.Form.cfg.Row == nil {
		return nil
	}
	for run := range l.Runs {
		if run.coversMost() {
			if _, err := l.Form.plainSegment(run.Memo, run.Entries); err != nil {
				return err
			}
			continue
		}
		for i := run.From; i < run.To; i++ {
			if _, _, err := l.Form.item(run.Memo, run.Entries, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeUpTo adds up the bytes of items and separators. It stops when there are more than n.
func (l *List) sizeUpTo(n int64) (int64, error) {
	separator := int64(len(l.Form.cfg.Framing.separator()))
	runs := l.Runs
	if n == noBound {
		runs = (&prefetcher{list: l, cold: (*slot).sizeUnknown, prepare: func(p *prefetch) error {
			_, err := l.Form.size(p.run.Memo, p.run.Entries)
			return err
		}}).runs()
	}
	var size int64
	for run := range runs {
		if size > n {
			break
		}
		if size > 0 {
			size += separator
		}
		bytes, err := l.runSize(run)
		if err != nil {
			return 0, err
		}
		size += bytes
	}
	return size, nil
}

func (l *List) runSize(run EntryRun) (size int64, err error) {
	if run.isWhole() && l.Form.cfg.Row == nil {
		return l.Form.size(run.Memo, run.Entries)
	}
	err = l.eachPart(run, func(part []byte) error {
		size += int64(len(part))
		return nil
	})
	return size, err
}

// eachPart calls use with the plain bytes of a run, in one or more parts, with the
// separators between items. The bytes are valid until use returns.
func (l *List) eachPart(run EntryRun, use func([]byte) error) error {
	f, separator := l.Form, l.Form.cfg.Framing.separator()
	if run.passed != nil {
		return use(run.passed.segment.items(run.From, run.To, len(separator)))
	}
	if run.coversMost() {
		return f.borrow(run, l.Waited, func(w *segment) error {
			if w.rows != nil {
				return l.renderRows(w.rows[run.From:run.To], use)
			}
			return use(w.items(run.From, run.To, len(separator)))
		})
	}
	for i := run.From; i < run.To; i++ {
		item, row, err := f.item(run.Memo, run.Entries, i)
		if err != nil {
			return err
		}
		if i > run.From && len(separator) > 0 {
			if err := use(separator); err != nil {
				return err
			}
		}
		if row != nil {
			err = l.renderRows([]Row{row}, use)
		} else {
			err = use(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renderRows calls use with rows as they read at List.Now.
func (l *List) renderRows(rows []Row, use func([]byte) error) error {
	buf := rowBuffers.Get().(*[]byte)
	defer rowBuffers.Put(buf)
	text := (*buf)[:0]
	for i, row := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		text = row.Append(text, l.Now)
	}
	*buf = text
	return use(text)
}

var rowBuffers = sync.Pool{New: func() any { return new([]byte) }}

// noBound lets sizeUpTo add up everything.
const noBound = 1<<63 - 1

// surroundings returns what surrounds the items. For protobuf it adds up the size of all items.
func (l *List) surroundings() (header, trailer []byte, err error) {
	if l.Empty {
		header, err = l.Form.encodeList(l.Meta)
		return header, nil, err
	}
	var size int64
	if l.Form.cfg.Framing == Protobuf {
		if size, err = l.sizeUpTo(noBound); err != nil {
			return nil, nil, err
		}
	}
	return l.Form.envelope(l.Meta, size)
}

// Write writes the answer, a segment at a time. Nothing is written before the first
// segment is encoded. After an error that follows the first byte, the answer is truncated,
// and the caller must cut the connection.
func (l *List) Write(w io.Writer, encoding Encoding) error {
	header, trailer, err := l.surroundings()
	if err != nil {
		return err
	}
	out := newOutput(w, encoding)
	defer out.release()
	out.pending = append(out.pending, header...)
	separator := l.Form.cfg.Framing.separator()
	first := true
	for run := range l.prefetcher(encoding).runs() {
		if !first {
			out.pending = append(out.pending, separator...)
		}
		first = false
		if err := l.writeRun(out, run); err != nil {
			return err
		}
	}
	if err := out.plain(trailer); err != nil {
		return err
	}
	return out.end()
}

// writeRun writes a run, from shared compressed segments where it can.
func (l *List) writeRun(out *output, run EntryRun) error {
	if !l.compresses(out.encoding, run) {
		return l.eachPart(run, out.plain)
	}
	return l.Form.borrowCompressed(run, out.encoding, l.Waited, out.compressed)
}

// compresses reports whether a run is sent as a shared compressed segment. Rows change
// with the time, and parts of a group are not compressed apart.
func (l *List) compresses(encoding Encoding, run EntryRun) bool {
	return encoding != Identity && l.Form.cfg.Row == nil && run.isWhole()
}

// prefetcher returns what encodes the segments that Write needs, ahead of Write.
func (l *List) prefetcher(encoding Encoding) *prefetcher {
	a := &prefetcher{list: l, cold: (*slot).cold, prepare: func(p *prefetch) (err error) {
		memo, entries := p.run.Memo, p.run.Entries
		if l.compresses(encoding, p.run) {
			p.segment, err = l.Form.compressedSegment(memo, entries, encoding)
			return err
		}
		if p.passed, err = l.Form.pass(memo, entries); p.passed == nil && err == nil {
			_, err = l.Form.plainSegment(memo, entries)
		}
		return err
	}}
	switch encoding {
	case Gzip:
		a.cold = (*slot).missingDeflate
	case Zstd:
		a.cold = (*slot).missingZstd
	}
	return a
}

// Compress compresses an answer as a whole, for objects that are sent once. src stays the
// caller's; with Identity it is the result.
func Compress(src []byte, encoding Encoding) []byte {
	switch encoding {
	case Zstd:
		return codec().encoder.EncodeAll(src, make([]byte, 0, len(src)/6+64))
	case Identity:
		return src
	}
	var sum gzipSum
	sum.addBytes(src)
	out := append(make([]byte, 0, len(src)/6+64), gzipHeader...)
	return sum.appendTrailer(deflate.Append(out, src))
}

func wrapWrite(err error) error {
	if err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return nil
}
