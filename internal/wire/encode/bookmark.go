package encode

import (
	"sync"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkFrames shares the bookmarks of one form among all watches. Frequent bookmarks
// have the newest revision. So all watches of a quiet resource are sent the same bytes many
// times a second. They are encoded once for each revision, and deflated once for each frame
// before them.
//
// The two newest revisions are kept. Watches that are asked at the same time may be one
// revision apart. And a deflated bookmark refers to the bookmark before it. A watch with
// another revision encodes its own. The zero value is ready.
type bookmarkFrames struct {
	mu struct {
		sync.Mutex
		newest, previous bookmarkFrame
	}
}

// bookmarkFrame is a bookmark with its revision. The zero value stands for no bookmark.
type bookmarkFrame struct {
	revision int64
	frame    *Frame
}

// bookmark returns the frame of a bookmark. object makes the bookmark's object, if the frame
// is not one of the two newest. It is called with the lock held, and must not take locks.
func (f *Form) bookmark(revision int64, object func(int64) (runtime.Object, error)) (*Frame, error) {
	var second int64
	if f.cfg.Volatile {
		second = time.Now().Unix()
	}
	m := &f.bookmarks.mu
	m.Lock()
	defer m.Unlock()
	for _, b := range []*bookmarkFrame{&m.newest, &m.previous} {
		if b.frame != nil && b.revision == revision && b.frame.second == second {
			return b.frame, nil
		}
	}
	obj, err := object(revision)
	if err != nil {
		return nil, err
	}
	text, err := f.signal(watch.Bookmark, obj)
	if err != nil {
		return nil, err
	}
	frame := &Frame{bytes: text, second: second}
	frame.self = weak.Make(frame)
	if revision >= m.newest.revision {
		m.newest, m.previous = bookmarkFrame{revision, frame}, m.newest
	}
	return frame, nil
}

// AppendBookmark appends the frame of a bookmark to segments, as Append does with changes.
// object is as in Form.bookmark.
func (s *Stream) AppendBookmark(segments [][]byte, revision int64, object func(int64) (runtime.Object, error)) ([][]byte, error) {
	frame, err := s.form().bookmark(revision, object)
	if err != nil {
		return segments, err
	}
	s.Observe(len(frame.bytes))
	return s.appendFrame(s.appendHeader(segments), frame)
}
