package watchcheck

import "fmt"

// Fault is the error of a validator: how a watch breaks a guarantee, and where.
type Fault struct {
	// Frame is the index of the frame at fault, -1 if there is no such frame.
	Frame int
	// Event is an event that is missing, or the one that should have come instead of the frame.
	// Its Revision is 0 if there is no such event.
	Event Event
	text  string
}

// Error implements error.
func (f *Fault) Error() string { return f.text }

// frameFault returns a fault of a frame, which is given by its index, without an event.
func frameFault(frame int, format string, args ...any) error {
	return &Fault{Frame: frame, text: fmt.Sprintf(format, args...)}
}

// frameIndex returns the index of a frame, which points into w.Frames.
func (w *Watch) frameIndex(f *Frame) int {
	for i := range w.Frames {
		if &w.Frames[i] == f {
			return i
		}
	}
	return -1
}

// firstFrameAfter returns the index of the first frame with a revision above the given one, -1
// if there is none. It passes over the initial events, which are in no order.
func (w *Watch) firstFrameAfter(revision int64) int {
	from := max(0, w.initialEnd())
	for i := range w.Frames[from:] {
		if f := &w.Frames[from+i]; f.Type != Error && f.Revision > revision {
			return from + i
		}
	}
	return -1
}
