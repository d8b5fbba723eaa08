package encode

import (
	"io"
	"iter"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/slo"
)

// Change is what an event means to one watch.
type Change struct {
	// Frames are the event's.
	Frames *Frames
	// Kind is ADDED for what comes to be selected, DELETED for what ceases to be.
	Kind watch.EventType
	// Entry is what is shown, with the revision of the change for its own.
	Entry    *resource.Entry
	Revision int64
	// Arrival is when the event came, nil if that is not known.
	Arrival *slo.Arrival
}

// Stream writes the frames of one watch. Between writes it holds no buffers. It
// is used by one goroutine at a time.
type Stream struct {
	// Form encodes frames. Head, if there is one, encodes the first instead: a
	// watch of tables describes the columns once.
	Form, Head *Form
	// Writer takes the wire bytes of what is not events. Who calls flushes it.
	Writer io.Writer
	// Encoding is Identity or Gzip.
	Encoding Encoding
	// Observe is told the uncompressed size of every frame.
	Observe func(size int)

	begun bool
	sum   gzipSum
	// last is the frame that the bytes so far end with, as long as it is around.
	last weak.Pointer[Frame]
}

// form is that of the next frame.
func (s *Stream) form() *Form {
	f := s.Form
	if s.Head != nil {
		f, s.Head = s.Head, nil
	}
	return f
}

func (s *Stream) output() *output {
	out := newOutput(s.Writer, s.Encoding)
	if s.begun {
		out.resume(s.sum)
	}
	s.begun = true
	return out
}

// end writes what was gathered.
func (s *Stream) end(out *output, err error) error {
	if err == nil {
		err = out.sync()
	}
	s.sum = out.sum
	out.release()
	return err
}

// Initial writes ADDED frames of everything in some spans, a group at a time.
func (s *Stream) Initial(spans iter.Seq[Span]) error {
	s.last = weak.Pointer[Frame]{}
	out := s.output()
	var err error
	for span := range spans {
		if err = s.span(out, span); err != nil {
			break
		}
	}
	return s.end(out, err)
}

func (s *Stream) span(out *output, span Span) error {
	if s.Form.cfg.Volatile {
		return s.eachEntry(out, span)
	}
	switch {
	case s.Encoding == Gzip && span.isWhole():
		return s.Form.borrowPacked(span.Memo, span.Entries, s.Encoding, func(w *segment) error {
			for _, size := range w.sizes {
				s.Observe(int(size))
			}
			return out.packed(w)
		})
	case span.coversMost():
		return s.Form.borrow(span.Memo, span.Entries, func(w *segment) error {
			for _, size := range w.itemSizes()[span.From:span.To] {
				s.Observe(int(size))
			}
			return out.plain(w.items(span.From, span.To, 0))
		})
	}
	for i := span.From; i < span.To; i++ {
		frame, _, err := s.Form.item(span.Memo, span.Entries, i)
		if err == nil {
			err = s.plain(out, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain adds a frame that was not compressed before.
func (s *Stream) plain(out *output, frame []byte) error {
	s.Observe(len(frame))
	return out.plain(frame)
}

// eachEntry encodes what cannot be shared.
func (s *Stream) eachEntry(out *output, span Span) error {
	for _, e := range span.Entries[span.From:span.To] {
		frame, err := s.form().event(nil, watch.Added, e, e.Revision)
		if err == nil {
			err = s.plain(out, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Append gives the frames of some events to one who sends the bytes himself, from
// where they are: they stay as they are. It takes about room bytes, and returns the
// changes that it left.
func (s *Stream) Append(segments [][]byte, changes []Change, room int) (_ [][]byte, rest []Change, err error) {
	if s.Encoding == Gzip && !s.begun {
		segments = append(segments, gzipHeader)
	}
	s.begun = true
	for i := range changes {
		if room <= 0 {
			return segments, changes[i:], nil
		}
		frame, err := s.frame(&changes[i])
		if err != nil {
			return segments, nil, err
		}
		sent := frame.bytes
		if s.Encoding == Gzip {
			if sent, err = s.deflate(frame); err != nil {
				return segments, nil, err
			}
		}
		segments = append(segments, sent)
		room -= len(sent)
	}
	return segments, nil, nil
}

func (s *Stream) frame(c *Change) (*Frame, error) {
	frame, err := s.form().Event(c)
	if err == nil {
		s.Observe(len(frame.bytes))
	}
	return frame, err
}

// deflate compresses a frame behind the one before it.
func (s *Stream) deflate(frame *Frame) ([]byte, error) {
	segment, sum, err := frame.deflate(s.last.Value())
	if err != nil {
		return nil, err
	}
	s.last = weak.Pointer[Frame]{}
	if len(frame.bytes) <= deflateWindow {
		s.last = frame.self
	}
	s.sum.addFrame(sum)
	return segment, nil
}

// Signal writes a bookmark, or an error with a metav1.Status.
func (s *Stream) Signal(kind watch.EventType, obj runtime.Object) error {
	frame, err := s.form().signal(kind, obj)
	if err != nil {
		return err
	}
	s.last = weak.Pointer[Frame]{}
	out := s.output()
	return s.end(out, s.plain(out, frame))
}

// Close ends the stream, whether it was written to or not.
func (s *Stream) Close() error {
	if s.Encoding == Identity {
		return nil
	}
	out := s.output()
	err := out.end()
	out.release()
	return err
}
