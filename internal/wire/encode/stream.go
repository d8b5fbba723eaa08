package encode

import (
	"io"
	"iter"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Change is an event as one watch sees it.
type Change struct {
	// Frames finds the wire bytes of the event. All watches share it.
	Frames *Frames
	// Kind is ADDED for an object that the watch begins to select. It is DELETED for one
	// that it selects no longer, whatever happened to the object.
	Kind watch.EventType
	// Entry is the object that is shown, with Revision in place of its own revision.
	Entry    *entry.Entry
	Revision int64
	// Arrival says when the event arrived. It is nil if that is not known.
	Arrival *entry.Arrival
}

// Stream writes the frames of one watch.
//
// A server has tens of thousands of idle watches, so a stream must cost little while
// nothing happens. It holds no buffers and no compressor between writes. A compressor of
// its own would take hundreds of kilobytes, and compress each event once per watch.
//
// Instead each frame is compressed once for all watches that end with the same frame, against
// that frame (Frame.deflate). The stream only keeps its checksum and a weak pointer to its
// last frame. The costs: a frame refers to one frame before it and no further, and streams
// whose last frames differ need segments of their own.
//
// One goroutine uses a stream at a time. The zero value needs Form, Writer and Observe.
type Stream struct {
	// Form encodes frames. Head, unless it is nil, encodes the first one: a watch of
	// tables describes the columns once.
	Form, Head *Form
	// Writer takes the wire bytes that Initial, Signal, Copy and Close write. The caller
	// flushes it.
	Writer io.Writer
	// Encoding is Identity or Gzip.
	Encoding Encoding
	// Observe is called with the uncompressed size of each frame.
	Observe func(size int)

	// begun says that the stream has its header.
	begun bool
	// sum is the checksum of what was written so far.
	sum gzipSum
	// last is the frame that the stream ends with, as long as it is in memory. It is zero
	// if the stream ends otherwise.
	last weak.Pointer[Frame]
}

// form returns the form of the next frame.
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

// end writes what out has gathered, unless err says that gathering failed. It takes the
// checksum back and releases out.
func (s *Stream) end(out *output, err error) error {
	if err == nil {
		err = out.sync()
	}
	s.sum = out.sum
	out.release()
	return err
}

// Initial writes ADDED frames of all entries of some runs, a group at a time.
func (s *Stream) Initial(runs iter.Seq[EntryRun]) error {
	s.last = weak.Pointer[Frame]{}
	out := s.output()
	var err error
	for run := range runs {
		if err = s.run(out, run); err != nil {
			break
		}
	}
	return s.end(out, err)
}

func (s *Stream) run(out *output, run EntryRun) error {
	if s.Form.cfg.Volatile {
		return s.eachEntry(out, run)
	}
	switch {
	case s.Encoding == Gzip && run.isWhole():
		return s.Form.borrowCompressed(run, s.Encoding, nil, func(w *segment) error {
			for _, size := range w.sizes {
				s.Observe(int(size))
			}
			return out.compressed(w)
		})
	case run.coversMost():
		return s.Form.borrow(run, nil, func(w *segment) error {
			for _, size := range w.itemSizes()[run.From:run.To] {
				s.Observe(int(size))
			}
			return out.plain(w.items(run.From, run.To, 0))
		})
	}
	for i := run.From; i < run.To; i++ {
		frame, _, err := s.Form.item(run.Memo, run.Entries, i)
		if err == nil {
			err = s.plain(out, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain adds a frame that is not compressed.
func (s *Stream) plain(out *output, frame []byte) error {
	s.Observe(len(frame))
	return out.plain(frame)
}

// eachEntry encodes frames that are volatile, so no memo keeps them.
func (s *Stream) eachEntry(out *output, run EntryRun) error {
	for _, e := range run.Entries[run.From:run.To] {
		frame, err := s.form().appendEvent(nil, watch.Added, e, e.Revision)
		if err == nil {
			err = s.plain(out, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Append appends the frames of changes to segments, for a caller that sends the bytes
// itself. The bytes are shared and must not be changed. Append stops when it has appended room
// bytes or more, and returns the changes that remain. There is one segment for each change,
// and one before them with the header of gzip if the stream begins.
func (s *Stream) Append(segments [][]byte, changes []Change, room int) (_ [][]byte, rest []Change, err error) {
	segments = s.appendHeader(segments)
	for i := range changes {
		if room <= 0 {
			return segments, changes[i:], nil
		}
		frame, err := s.frame(&changes[i])
		if err != nil {
			return segments, nil, err
		}
		if segments, err = s.appendFrame(segments, frame); err != nil {
			return segments, nil, err
		}
		room -= len(segments[len(segments)-1])
	}
	return segments, nil, nil
}

// appendHeader appends the header of gzip if the stream begins.
func (s *Stream) appendHeader(segments [][]byte) [][]byte {
	if s.Encoding == Gzip && !s.begun {
		segments = append(segments, gzipHeader)
	}
	s.begun = true
	return segments
}

// appendFrame appends the wire bytes of a frame.
func (s *Stream) appendFrame(segments [][]byte, frame *Frame) ([][]byte, error) {
	if s.Encoding != Gzip {
		return append(segments, frame.bytes), nil
	}
	sent, err := s.deflate(frame)
	if err != nil {
		return segments, err
	}
	return append(segments, sent), nil
}

func (s *Stream) frame(c *Change) (*Frame, error) {
	frame, err := s.form().Event(c)
	if err == nil {
		s.Observe(len(frame.bytes))
	}
	return frame, err
}

// deflate returns a frame compressed as it follows the frame before it.
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

// Signal writes a bookmark or, with a metav1.Status, an error.
func (s *Stream) Signal(kind watch.EventType, obj runtime.Object) error {
	frame, err := s.form().signal(kind, obj)
	if err != nil {
		return err
	}
	s.last = weak.Pointer[Frame]{}
	out := s.output()
	return s.end(out, s.plain(out, frame))
}

// Copy writes frames that another server has made.
func (s *Stream) Copy(frames []byte) error {
	if s.Encoding == Identity {
		_, err := s.Writer.Write(frames)
		return wrapWrite(err)
	}
	s.last = weak.Pointer[Frame]{}
	out := s.output()
	return s.end(out, out.plain(frames))
}

// Continue makes the stream the rest of another one of the same coding.
func (s *Stream) Continue(first *Stream) { s.begun, s.sum = first.begun, first.sum }

// Close writes the end of the stream, even if nothing was written before.
func (s *Stream) Close() error {
	if s.Encoding == Identity {
		return nil
	}
	out := s.output()
	err := out.end()
	out.release()
	return err
}
