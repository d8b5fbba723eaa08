package watchcheck

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

var (
	keyA = Key{"ns", "a"}
	keyB = Key{"ns", "b"}
	keyC = Key{"ns", "c"}
	keyX = Key{"other", "x"}
)

func state(revision int64, app string) *State {
	return &State{Revision: revision, Labels: labels.Set{"app": app}, Fields: fields.Set{"metadata.name": "x"}}
}

// truth returns a history of three objects with a label. At revision 10, a and x exist. Then b
// is created, a leaves the selection app=web and returns to it, one transaction changes b and
// c, and a is deleted.
func truth() *Truth {
	a10, x10 := state(5, "web"), state(6, "web")
	b11, a12, a13 := state(11, "web"), state(12, "db"), state(13, "web")
	b14, c14 := state(14, "web"), state(14, "web")
	return &Truth{
		From: 10, Initial: map[Key]*State{keyA: a10, keyX: x10}, Through: 15,
		Changes: []Change{
			{Revision: 11, Key: keyB, After: b11},
			{Revision: 12, Key: keyA, Before: a10, After: a12},
			{Revision: 13, Key: keyA, Before: a12, After: a13},
			{Revision: 14, Key: keyB, Before: b11, After: b14},
			{Revision: 14, Key: keyC, After: c14},
			{Revision: 15, Key: keyA, Before: a13},
		},
	}
}

func web() Selection {
	return Selection{Namespace: "ns", Labels: labels.SelectorFromSet(labels.Set{"app": "web"})}
}

func frame(kind string, key Key, revision int64) Frame {
	return Frame{Type: kind, Key: key, Revision: revision, Labels: labels.Set{"app": "web"}}
}

func bookmark(revision int64) Frame { return Frame{Type: Bookmark, Revision: revision} }

func end(revision int64) Frame { return Frame{Type: Bookmark, Revision: revision, InitialEnd: true} }

// resumedWatch returns a valid watch that starts from revision 10.
func resumedWatch() *Watch {
	return &Watch{
		Start: Start{Selection: web(), Revision: 10, Bookmarks: true}, Ended: true,
		Frames: []Frame{
			frame(Added, keyB, 11), frame(Deleted, keyA, 12), bookmark(12), frame(Added, keyA, 13),
			frame(Modified, keyB, 14), frame(Added, keyC, 14), frame(Deleted, keyA, 15), bookmark(15),
		},
	}
}

// listedWatch returns a valid watch that begins with the state at revision 11.
func listedWatch() *Watch {
	return &Watch{
		Start: Start{Selection: web(), Revision: 11, Bookmarks: true, Initial: true, End: true}, Ended: true,
		Frames: []Frame{
			frame(Added, keyB, 11), frame(Added, keyA, 5), end(11), frame(Deleted, keyA, 12), frame(Added, keyA, 13),
			frame(Modified, keyB, 14), frame(Added, keyC, 14), frame(Deleted, keyA, 15),
		},
	}
}

func dropFrames(w *Watch, at ...int) *Watch {
	var left []Frame
	for i, f := range w.Frames {
		drop := false
		for _, n := range at {
			drop = drop || i == n
		}
		if !drop {
			left = append(left, f)
		}
	}
	w.Frames = left
	return w
}

func insertFrame(w *Watch, at int, f Frame) *Watch {
	w.Frames = append(w.Frames[:at:at], append([]Frame{f}, w.Frames[at:]...)...)
	return w
}

func swapFrames(w *Watch, i, j int) *Watch {
	w.Frames[i], w.Frames[j] = w.Frames[j], w.Frames[i]
	return w
}

func changeWatch(w *Watch, change func(*Watch)) *Watch {
	change(w)
	return w
}

func TestGoodHistories(t *testing.T) {
	for name, w := range map[string]*Watch{
		"resumed":                            resumedWatch(),
		"listed":                             listedWatch(),
		"empty":                              {Start: Start{Selection: web(), Revision: 15}, Ended: true},
		"broken within a transaction":        changeWatch(dropFrames(resumedWatch(), 5, 6, 7), func(w *Watch) { w.Ended = false }),
		"broken within initial events":       changeWatch(dropFrames(listedWatch(), 1, 2, 3, 4, 5, 6, 7), func(w *Watch) { w.Ended = false }),
		"end of initial events after events": changeWatch(swapFrames(listedWatch(), 2, 3), func(w *Watch) { w.Frames[3].Revision = 12 }),
		"initial events without an end":      changeWatch(dropFrames(listedWatch(), 2), func(w *Watch) { w.End = false }),
		"started before the truth": {
			Start: Start{Selection: web(), Initial: true, End: true, Bookmarks: true}, Ended: true,
			Frames: []Frame{frame(Added, keyA, 5), end(8), frame(Added, keyB, 11)},
		},
		"expired": {Start: Start{Selection: web(), Revision: 1}, Ended: true, Frames: []Frame{{Type: Error, Status: &metav1.Status{Code: 410}}}},
		"opaque": changeWatch(resumedWatch(), func(w *Watch) {
			for i := range w.Frames {
				w.Frames[i].Opaque, w.Frames[i].Key = w.Frames[i].isEvent(), Key{}
			}
		}),
	} {
		if err := Validate(truth(), w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenInitialEvents checks that if a watch breaks within its initial events, the rest of
// them is not reported as missing.
func TestBrokenInitialEvents(t *testing.T) {
	p11, q12, p13 := state(11, "web"), state(12, "web"), state(13, "web")
	truth := &Truth{From: 10, Through: 13, Changes: []Change{
		{Revision: 11, Key: keyA, After: p11}, {Revision: 12, Key: keyB, After: q12}, {Revision: 13, Key: keyA, Before: p11, After: p13},
	}}
	w := &Watch{Start: Start{Selection: web(), Initial: true, End: true, Bookmarks: true}, Frames: []Frame{frame(Added, keyA, 13)}}
	if err := Validate(truth, w); err != nil {
		t.Error(err)
	}
	w.Ended = true
	if err := Validate(truth, w); err == nil {
		t.Error("the watch ended in good order without an object, which is not found")
	}
	w.Frames = append(w.Frames, Frame{Type: Error, Status: &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError}})
	if err := Validate(truth, w); err != nil {
		t.Errorf("the watch ended with an error: %v", err)
	}
}

// TestNothingSelectedAnyMore checks a selection that is empty at two revisions. The bookmark
// says which of the two the watch shows.
func TestNothingSelectedAnyMore(t *testing.T) {
	a11 := state(11, "web")
	truth := &Truth{From: 10, Through: 12, Changes: []Change{{Revision: 11, Key: keyA, After: a11}, {Revision: 12, Key: keyA, Before: a11}}}
	w := &Watch{Start: Start{Selection: web(), Initial: true, End: true, Bookmarks: true}, Frames: []Frame{end(12)}, Ended: true}
	if err := Validate(truth, w); err != nil {
		t.Error(err)
	}
	w.Frames = []Frame{end(11)}
	if err := Validate(truth, w); err == nil {
		t.Error("an object that existed at 11 is missing, which is not found")
	}
}

func TestBadHistories(t *testing.T) {
	for _, c := range []struct {
		validator, name string
		watch           *Watch
	}{
		{"initial", "an object is missing", dropFrames(listedWatch(), 1)},
		{"initial", "an object too many", insertFrame(listedWatch(), 0, frame(Added, keyC, 14))},
		{"initial", "objects of two revisions", changeWatch(listedWatch(), func(w *Watch) { w.Frames[0].Revision = 14 })},
		{"initial", "older than asked for", changeWatch(listedWatch(), func(w *Watch) { w.Revision = 16 })},
		{"initial end", "twice", insertFrame(listedWatch(), 3, end(11))},
		{"initial end", "never", dropFrames(listedWatch(), 2)},
		{"initial end", "before an initial event", swapFrames(listedWatch(), 1, 2)},
		{"initial end", "not asked for", changeWatch(listedWatch(), func(w *Watch) { w.End = false })},
		{"ordered", "events", swapFrames(resumedWatch(), 0, 1)},
		{"ordered", "a bookmark goes down", insertFrame(resumedWatch(), 7, bookmark(13))},
		{"unique", "twice", insertFrame(resumedWatch(), 1, frame(Added, keyB, 11))},
		{"unique", "from before the start", insertFrame(resumedWatch(), 0, frame(Added, keyA, 5))},
		{"complete", "an event", dropFrames(resumedWatch(), 0)},
		{"complete", "the event before the last bookmark", dropFrames(resumedWatch(), 6)},
		{"atomic", "a part at the end", dropFrames(resumedWatch(), 5, 6, 7)},
		{"atomic", "apart", swapFrames(resumedWatch(), 5, 6)},
		{"atomic", "a bookmark between", insertFrame(resumedWatch(), 5, bookmark(14))},
		{"bookmarks", "ahead", changeWatch(resumedWatch(), func(w *Watch) { w.Frames[2].Revision = 13 })},
		{"bookmarks", "not allowed", changeWatch(resumedWatch(), func(w *Watch) { w.Bookmarks = false })},
		{"bookmarks", "without a revision", changeWatch(resumedWatch(), func(w *Watch) { w.Frames[2].Revision = 0 })},
		{"transitions", "MODIFIED for ADDED", changeWatch(resumedWatch(), func(w *Watch) { w.Frames[0].Type = Modified })},
		{"transitions", "content that is not selected", changeWatch(resumedWatch(), func(w *Watch) { w.Frames[1].Labels = labels.Set{"app": "db"} })},
		{"transitions", "deleted at its old revision", changeWatch(resumedWatch(), func(w *Watch) { w.Frames[6].Revision = 13 })},
		{"transitions", "an object of another namespace", insertFrame(resumedWatch(), 0, frame(Added, keyX, 11))},
		{"terminated", "a frame after an error", insertFrame(resumedWatch(), 3, Frame{Type: Error, Status: &metav1.Status{Code: 410}})},
		{"terminated", "an error that says nothing", &Watch{Start: Start{Selection: web(), Revision: 10}, Frames: []Frame{{Type: Error}}}},
		{"terminated", "an unknown type", insertFrame(resumedWatch(), 0, Frame{Type: "RENAMED"})},
	} {
		if err := Validate(truth(), c.watch); err == nil || !strings.Contains("\n"+err.Error(), "\n"+c.validator+": ") {
			t.Errorf("%s: %s is found as: %v", c.validator, c.name, err)
		}
	}
}

func TestResumable(t *testing.T) {
	tail := func(revision int64) *Watch {
		w := resumedWatch()
		w.Revision = revision
		for len(w.Frames) > 0 && w.Frames[0].Revision <= revision {
			w.Frames = w.Frames[1:]
		}
		return w
	}
	for _, revision := range []int64{10, 11, 12, 13, 14, 15} {
		if err := Resumable(resumedWatch(), tail(revision)); err != nil {
			t.Errorf("from %d: %v", revision, err)
		}
	}
	for name, w := range map[string]*Watch{
		"an event is missing": dropFrames(tail(12), 0),
		"another type":        changeWatch(tail(12), func(w *Watch) { w.Frames[0].Type = Modified }),
		"an event too many":   insertFrame(tail(12), 0, frame(Added, keyC, 13)),
	} {
		if err := Resumable(resumedWatch(), w); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestConverged(t *testing.T) {
	first := dropFrames(resumedWatch(), 3, 4, 5, 6, 7)
	second := changeWatch(resumedWatch(), func(w *Watch) { w.Revision, w.Frames = 12, w.Frames[3:] })
	if err := Converged(truth(), []*Watch{first, second}); err != nil {
		t.Errorf("resumed: %v", err)
	}
	if err := Converged(truth(), []*Watch{first, listedWatch()}); err != nil {
		t.Errorf("started again: %v", err)
	}
	if err := Converged(truth(), []*Watch{first, dropFrames(second, 0, 3)}); err == nil {
		t.Error("a client without the last deletion is taken for good")
	}
}

func TestLast(t *testing.T) {
	for _, c := range []struct {
		watch *Watch
		want  int64
	}{{resumedWatch(), 15}, {listedWatch(), 15}, {dropFrames(listedWatch(), 2), 0}, {&Watch{Start: Start{Revision: 7}}, 7}, {dropFrames(listedWatch(), 3, 4, 5, 6, 7), 11}} {
		if got := c.watch.Last(); got != c.want {
			t.Errorf("%v can be resumed from %d, want %d", c.watch.Frames, got, c.want)
		}
	}
}

// TestLatestStart checks that a watch which was cut off among its initial events is not taken for
// one that began with fewer objects.
func TestLatestStart(t *testing.T) {
	failed := Frame{Type: Error, Status: &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError}}
	for name, test := range map[string]struct {
		frames   []Frame
		ended    bool
		complete bool
	}{
		"an error comes first":       {[]Frame{failed}, true, false},
		"the client left at once":    {nil, false, false},
		"an error ends it":           {[]Frame{frame(Added, keyA, 5), failed}, true, false},
		"its time was over":          {[]Frame{frame(Added, keyA, 5)}, true, true},
		"the client left after more": {[]Frame{frame(Added, keyA, 5), frame(Added, keyB, 11), frame(Deleted, keyA, 12)}, false, true},
		"it says so":                 {[]Frame{frame(Added, keyA, 5), end(10)}, false, true},
	} {
		w := &Watch{Start: Start{Selection: web(), Initial: true, End: true, Bookmarks: true}, Frames: test.frames, Ended: test.ended}
		if _, complete := w.LatestStart(truth()); complete != test.complete {
			t.Errorf("%s: the state is complete: %t", name, complete)
		}
	}
}
