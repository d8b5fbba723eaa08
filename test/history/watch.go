package history

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Start is what a watch was asked for.
type Start struct {
	Selection
	// Revision is the resourceVersion; 0 if it was unset or "0".
	Revision int64
	// Initial says that the watch begins with what exists, and End that a
	// bookmark says where this ends.
	Initial, End bool
	// Bookmarks says that they are allowed.
	Bookmarks bool
}

// Frame is one that was received.
type Frame struct {
	Type     string
	Key      Key
	Revision int64
	Labels   labels.Set
	// InitialEnd marks the bookmark behind the initial events.
	InitialEnd bool
	// Opaque frames tell neither key nor labels: rows of a table without objects.
	Opaque bool
	// Status is that of an ERROR.
	Status   *metav1.Status
	Received time.Time
}

func (f *Frame) event() bool { return f.Type == Added || f.Type == Modified || f.Type == Deleted }

func (f *Frame) String() string {
	switch {
	case f.Status != nil:
		return fmt.Sprintf("%s %d %s: %s", f.Type, f.Status.Code, f.Status.Reason, f.Status.Message)
	case f.InitialEnd:
		return fmt.Sprintf("%s %d (end of initial events)", f.Type, f.Revision)
	}
	return fmt.Sprintf("%s %s %d", f.Type, f.Key, f.Revision)
}

// Watch is what one request for a watch got.
type Watch struct {
	Start
	Frames []Frame
	// Ended says that the server ended the answer in good order; else Err says
	// how it broke, or both are unset because the client left.
	Ended bool
	Err   error

	// begun is what begin found for the truth and the frames it was asked with.
	begun struct {
		truth  *Truth
		frames int
		initialState
	}
}

// Last is the revision that the watch can be resumed from: that of the last
// event or bookmark, as clients do it. It is 0 if the watch has to begin anew,
// since its initial events did not all come or nothing says where they end.
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

// initialEnd is the place of the bookmark that ends the initial events; -1 if
// there is none.
func (w *Watch) initialEnd() int {
	return slices.IndexFunc(w.Frames, func(f Frame) bool { return f.InitialEnd })
}
