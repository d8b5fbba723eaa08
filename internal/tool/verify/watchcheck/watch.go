package watchcheck

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Start describes the request for a watch.
type Start struct {
	Selection
	// Revision is the requested resourceVersion. It is 0 if the request had none, or "0".
	Revision int64
	// Initial is set if the watch starts with the current objects. End is set if a bookmark
	// has to end these initial events.
	Initial, End bool
	// Bookmarks is set if the client allows bookmarks.
	Bookmarks bool
}

// Frame is a received frame.
type Frame struct {
	Type     string
	Key      Key
	Revision int64
	Labels   labels.Set
	// InitialEnd is set in the bookmark that ends the initial events.
	InitialEnd bool
	// Opaque is set if the frame has neither key nor labels, as in a Table whose rows contain
	// no objects.
	Opaque bool
	// Status is set in frames of type ERROR.
	Status   *metav1.Status
	Received time.Time
}

// isEvent reports whether the frame is neither a bookmark nor an error.
func (f *Frame) isEvent() bool { return f.Type == Added || f.Type == Modified || f.Type == Deleted }

func (f *Frame) String() string {
	switch {
	case f.Status != nil:
		return fmt.Sprintf("%s %d %s: %s", f.Type, f.Status.Code, f.Status.Reason, f.Status.Message)
	case f.InitialEnd:
		return fmt.Sprintf("%s %d (end of initial events)", f.Type, f.Revision)
	}
	return fmt.Sprintf("%s %s %d", f.Type, f.Key, f.Revision)
}

// Watch is the record of one watch request.
type Watch struct {
	Start
	Frames []Frame
	// Ended is set if the server ended the answer regularly. Err is set if the answer broke.
	// If the client closed the watch, neither is set.
	Ended bool
	Err   error

	// initialCache has the result of initialState for a truth and a number of frames.
	initialCache struct {
		truth  *Truth
		frames int
		initialState
	}
}

// Last returns the revision from which the client can resume, which the last event or bookmark
// has. It returns 0 if the client has to start again, because the initial events are incomplete
// or have no recognizable end.
func (w *Watch) Last() int64 {
	last, from := w.Revision, 0
	if w.Initial {
		last, from = 0, w.initialEnd()
	}
	if from < 0 {
		return 0
	}
	for i := range w.Frames[from:] {
		if f := &w.Frames[from+i]; f.Type != Error {
			last = max(last, f.Revision)
		}
	}
	return last
}

// initialEnd returns the index of the bookmark that ends the initial events, -1 if there is
// none.
func (w *Watch) initialEnd() int {
	return slices.IndexFunc(w.Frames, func(f Frame) bool { return f.InitialEnd })
}
