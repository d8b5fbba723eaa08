package encode

import (
	"hash/crc32"
	"sync"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/watch"
)

// Frames finds the wire bytes of one event in every form that watches asked for. The event
// log owns one Frames for each event, so it lives as long as the event is in the log.
//
// The frames themselves are only held weakly. Most events are sent to all watches within
// milliseconds, and to none after that. To keep their bytes for the life of the log would
// cost many times the log's own memory. So a frame stays while a connection sends it, and
// while RecentFrames has room for it. A watch that comes later encodes it again, and shares
// it with others that are as late.
//
// The cost is one lock and one weak pointer for each event and form.
//
// The zero value is ready. Frames must not be copied.
type Frames struct {
	mu struct {
		sync.Mutex
		cells []*frameCell
	}
}

// frameCell is an event in one form.
type frameCell struct {
	form *Form
	kind watch.EventType
	// build is held by the goroutine that encodes the frame. Others that need it wait. It
	// is never taken with Frames.mu held.
	//
	// It is like slot.build: the result may vanish, so neither a sync.Once nor a single
	// flight fits. The two do not share code. A frame has one result, which may also be
	// outdated by the clock. A slot has three, which depend on each other.
	build struct {
		sync.Mutex
		frame weak.Pointer[Frame]
	}
}

func (m *Frames) cell(f *Form, kind watch.EventType) *frameCell {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.mu.cells {
		if c.form == f && c.kind == kind {
			return c
		}
	}
	c := &frameCell{form: f, kind: kind}
	m.mu.cells = append(m.mu.cells, c)
	return c
}

// Event returns the frame of a change. It encodes the frame unless that is still in memory.
func (f *Form) Event(c *Change) (*Frame, error) {
	cell := c.Frames.cell(f, c.Kind)
	cell.build.Lock()
	defer cell.build.Unlock()
	var second int64
	if f.cfg.Volatile {
		second = time.Now().Unix()
	}
	if frame := cell.build.frame.Value(); frame != nil && frame.second == second {
		return frame, nil
	}
	text, err := f.appendEvent(nil, c.Kind, c.Entry, c.Revision)
	if err != nil {
		return nil, err
	}
	frame := &Frame{bytes: text, second: second}
	frame.self = weak.Make(frame)
	cell.build.frame = frame.self
	f.cfg.RecentFrames.keep(frame)
	return frame, nil
}

// HasFrame reports whether Event would find a change's frame. It returns false for
// volatile frames, which may be outdated by then.
func (f *Form) HasFrame(c *Change) bool {
	cell := c.Frames.cell(f, c.Kind)
	cell.build.Lock()
	defer cell.build.Unlock()
	return !f.cfg.Volatile && cell.build.frame.Value() != nil
}

// Frame is one event on the wire. All watches that are sent the event in this form share it,
// so their connections hold a pointer and no copy.
type Frame struct {
	// bytes are not changed.
	bytes []byte
	// second is when volatile bytes were encoded, in Unix time. It is 0 for other bytes.
	// Volatile bytes tell ages as they are when the event is sent. Most timestamps are
	// whole seconds, so all ages change at the same time.
	second int64
	// self lets a stream ask later whether the frame is still in memory.
	self weak.Pointer[Frame]

	mu struct {
		sync.Mutex
		sum frameSum
		// deflated are the compressed forms of bytes. They differ by the frame before them
		// in the stream, to which they refer. The zero pointer refers to no frame.
		deflated []frameSegment
	}
}

// frameSum advances a gzip stream's checksum by a frame. power is crcPower of the size.
type frameSum struct {
	crc, power uint32
	size       int64
}

// frameSegment is a frame deflated for a stream that ends with the frame after.
type frameSegment struct {
	after weak.Pointer[Frame]
	bytes []byte
}

// maxFrameSegments bounds the segments of a frame. Streams that end with yet another frame
// are sent the segment that refers to none.
const maxFrameSegments = 4

// deflate returns the frame compressed for a stream that ends with the frame before, which
// may be nil.
func (f *Frame) deflate(before *Frame) (segment []byte, sum frameSum, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var after weak.Pointer[Frame]
	var dictionary []byte
	if before != nil && (len(f.mu.deflated) < maxFrameSegments || f.findLocked(before.self) != nil) {
		after, dictionary = before.self, before.bytes
	}
	if segment = f.findLocked(after); segment != nil {
		return segment, f.mu.sum, nil
	}
	if segment, err = deflateAfter(f.bytes, dictionary); err != nil {
		return nil, frameSum{}, err
	}
	size := int64(len(f.bytes))
	f.mu.sum = frameSum{crc: crc32.ChecksumIEEE(f.bytes), power: crcPower(size), size: size}
	f.mu.deflated = append(f.mu.deflated, frameSegment{after, segment})
	return segment, f.mu.sum, nil
}

func (f *Frame) findLocked(after weak.Pointer[Frame]) []byte {
	for _, d := range f.mu.deflated {
		if d.after == after {
			return d.bytes
		}
	}
	return nil
}
