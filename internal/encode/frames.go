package encode

import (
	"hash/crc32"
	"sync"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/watch"
)

// Frames keeps the wire bytes of one event in every form that watchers asked
// for. Each is encoded by one of them while the others that want it wait. What
// nobody is busy with stays as long as Recent has room for it, and is encoded
// again for who comes late. The zero value is ready. Frames must not be copied.
type Frames struct {
	mu struct {
		sync.Mutex
		cells []*frameCell
	}
}

type frameCell struct {
	form *Form
	kind watch.EventType
	// build is held by who encodes; it is never taken with Frames.mu held.
	build sync.Mutex
	frame weak.Pointer[Frame]
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

// Event returns the frame of a change.
func (f *Form) Event(c *Change) (*Frame, error) {
	cell := c.Frames.cell(f, c.Kind)
	cell.build.Lock()
	defer cell.build.Unlock()
	var second int64
	if f.cfg.Volatile {
		second = time.Now().Unix()
	}
	if frame := cell.frame.Value(); frame != nil && frame.second == second {
		return frame, nil
	}
	text, err := f.event(nil, c.Kind, c.Entry, c.Revision)
	if err != nil {
		return nil, err
	}
	frame := &Frame{bytes: text, second: second}
	frame.self = weak.Make(frame)
	cell.frame = frame.self
	f.cfg.RecentFrames.keep(frame)
	return frame, nil
}

// Frame is one event on the wire. It is shared by all watchers that are sent it.
type Frame struct {
	bytes []byte
	// second is when bytes that tell ages were encoded, in Unix time, and 0 for others.
	// Kubernetes tells them as they are when the event is sent; most timestamps are of
	// whole seconds, so they change together.
	second int64
	// self is for those who want to know later whether it is still around.
	self weak.Pointer[Frame]

	mu struct {
		sync.Mutex
		sum frameSum
		// deflated are gzip segments, by the frame that went before them in the
		// stream: none for one that refers to nothing.
		deflated []frameSegment
	}
}

// frameSum is what a gzip stream's checksum is advanced by.
type frameSum struct {
	crc, power uint32
	size       int64
}

type frameSegment struct {
	after weak.Pointer[Frame]
	bytes []byte
}

// maxFrameSegments bounds the segments of a frame. Who follows after yet another
// frame is sent the one that refers to nothing.
const maxFrameSegments = 4

// deflate returns the frame compressed for a stream whose last bytes are those
// of before, which may be nil.
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

// RecentFrames keeps the newest frames of a process, so that those who are a moment
// late do not encode them again. The nil value keeps none.
type RecentFrames struct {
	limit int
	mu    struct {
		sync.Mutex
		frames []*Frame
		bytes  int
	}
}

// NewRecentFrames keeps frames of some bytes in all.
func NewRecentFrames(limit int64) *RecentFrames { return &RecentFrames{limit: int(limit)} }

// Release lets go of all frames, when nobody is late.
func (r *RecentFrames) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.frames, r.mu.bytes = nil, 0
}

func (r *RecentFrames) keep(f *Frame) {
	if r == nil || len(f.bytes) > r.limit/4 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.frames = append(r.mu.frames, f)
	r.mu.bytes += len(f.bytes)
	drop := 0
	for ; r.mu.bytes > r.limit; drop++ {
		r.mu.bytes -= len(r.mu.frames[drop].bytes)
		r.mu.frames[drop] = nil
	}
	r.mu.frames = r.mu.frames[drop:]
}
