package verify

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/millrace/millrace/internal/history"
)

// watch checks what a watch has told.
func (c *checker) watch(t *truth, w *watchRecord) {
	switch {
	case w.Status == http.StatusGone && (w.Class == gone || w.Class == known):
		c.of(Answers).Checked++
		return
	case w.unknown() || w.Status == http.StatusTooManyRequests:
		return
	case w.Status != http.StatusOK || w.Err != "":
		c.of(Answers).Checked++
		c.found(Answers, w.Server, []string{c.run.tellWatch(w)}, "status %d: %s", w.Status, w.Err)
		return
	}
	for _, v := range history.Validators() {
		c.of(Watching).Checked++
		if err := v.Check(&t.Truth, &w.watch); err != nil {
			c.found(Watching, w.Server, c.run.tellFrames(w), "%s: %v", v.Name, err)
		}
	}
	if w.Class != unset || !w.watch.Initial || !w.toldBeginning() {
		return
	}
	revision, whole := w.watch.Began(&t.Truth)
	if !whole {
		return
	}
	c.of(Fresh).Checked++
	if before := t.returned.before(w.Called); before != nil && revision < t.settled(&w.watch.Selection, t.revision(before)) {
		c.found(Fresh, w.Server, append([]string{c.run.tellWrite(before)}, c.run.tellFrames(w)...), "the watch began with the state at revision %d, after revision %d was acknowledged", revision, t.revision(before))
	}
}

// toldBeginning reports whether the watch has come to the end of its initial events: to the
// bookmark behind them, or to its own end without an error. A watch that broke before may have
// told of none of many.
func (w *watchRecord) toldBeginning() bool {
	frames := w.watch.Frames
	if slices.ContainsFunc(frames, func(f history.Frame) bool { return f.InitialEnd }) {
		return true
	}
	return w.watch.Ended && (len(frames) == 0 || frames[len(frames)-1].Type != history.Error)
}

// settled is the revision of the last change up to a revision that concerns a selection.
// Initial events do not tell of others.
func (t *truth) settled(s *history.Selection, revision int64) int64 {
	events := t.Expected(s, 0, revision)
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Revision
}

// tellWatch tells how a watch was asked for and answered.
func (r *run) tellWatch(w *watchRecord) string {
	outcome := fmt.Sprintf("status %d, %d frames", w.Status, len(w.watch.Frames))
	if w.Err != "" {
		outcome += ", " + w.Err
	}
	return r.tellOperation(&w.Operation, w.text(), outcome)
}

// maxFrames is how many frames of a watch a story has, at each end.
const maxFrames = 10

func (r *run) tellFrames(w *watchRecord) []string {
	story := []string{r.tellWatch(w)}
	for i := range w.watch.Frames {
		if i >= maxFrames && i < len(w.watch.Frames)-maxFrames {
			if i == maxFrames {
				story = append(story, fmt.Sprintf("    … %d frames …", len(w.watch.Frames)-2*maxFrames))
			}
			continue
		}
		f := &w.watch.Frames[i]
		story = append(story, fmt.Sprintf("    %9.3fs %s %s", f.Received.Sub(r.start).Seconds(), f, f.Labels[valueLabel]))
	}
	return story
}
