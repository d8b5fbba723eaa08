package watchcheck

import "fmt"

// Fault is the error of a validator: how a watch breaks a guarantee, and where.
type Fault struct {
	// Frame is the index of the frame at fault, or -1 if none is.
	Frame int
	// Event is an event that is missing, or that was to come in place of the frame. Its
	// Revision is 0 if there is none.
	Event Event
	text  string
}

// Error implements error.
func (f *Fault) Error() string { return f.text }

// fault is one of a frame.
func fault(frame int, format string, args ...any) error {
	return &Fault{Frame: frame, text: fmt.Sprintf(format, args...)}
}

// frameOf is the index of a frame of the watch.
func (w *Watch) frameOf(f *Frame) int {
	for i := range w.Frames {
		if &w.Frames[i] == f {
			return i
		}
	}
	return -1
}

// behind is the index of the first frame that tells of more than a revision, -1 if none
// does. Initial events tell of nothing.
func (w *Watch) behind(revision int64) int {
	from := max(0, w.initialEnd())
	for i := range w.Frames[from:] {
		if f := &w.Frames[from+i]; f.Type != Error && f.Revision > revision {
			return from + i
		}
	}
	return -1
}
