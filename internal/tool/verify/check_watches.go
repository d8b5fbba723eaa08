package verify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

func (c *checker) watch(t *truth, w *watchRecord) {
	// kube-apiserver ends a watch when its time is over, also within its initial events, which
	// it cannot send while etcd does not answer. Such a watch has not ended in good order. That
	// is believed of a server at which other requests failed, too.
	if w.late && c.run.servers[w.Server].failedAfter(c.run.start.Add(w.Called)) {
		w.watch.Ended = false
	}
	switch {
	case w.Status == http.StatusGone && (w.Class == gone || w.Class == known):
		c.of(Answers).Checked++
		return
	case w.unknown() || w.Status == http.StatusTooManyRequests:
		return
	case w.Status != http.StatusOK || w.Err != "":
		c.of(Answers).Checked++
		c.found(Answers, w.Server, []Step{w.step(c.run)}, "status %d: %s", w.Status, w.Err)
		return
	}
	told := map[version]bool{}
	for _, v := range watchcheck.Validators() {
		c.of(Watching).Checked++
		err := v.Check(&t.Truth, &w.watch)
		if err == nil {
			continue
		}
		if f := (*watchcheck.Fault)(nil); errors.As(err, &f) && f.Event.Revision > 0 {
			event := version{f.Event.Key, f.Event.Revision}
			if told[event] {
				continue // one event that is missing breaks several guarantees
			}
			told[event] = true
		}
		text := strings.ReplaceAll(err.Error(), c.run.fixture.namespace+"/", "")
		c.found(Watching, w.Server, c.tellFault(t, w, err), "%s: %s", v.Name, text)
	}
	if w.Class != unset || !w.watch.Initial {
		return
	}
	revision, whole := w.watch.Began(&t.Truth)
	if !whole {
		return
	}
	c.of(Fresh).Checked++
	if before := t.returned.before(w.Called); before != nil && revision < t.settled(&w.watch.Selection, t.revision(before)) {
		story := append(c.run.tellFrames(w, 0, ""), before.step(c.run))
		story[0] = story[0].instead("a state of revision %d or newer", t.revision(before))
		c.found(Fresh, w.Server, c.run.story(story...), "the watch began with the state at revision %d, after revision %d was acknowledged", revision, t.revision(before))
	}
}

// settled is the revision of the last change up to a revision that concerns a selection.
// Initial events do not tell of others.
func (t *truth) settled(s *watchcheck.Selection, revision int64) int64 {
	events := t.Expected(s, 0, revision)
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Revision
}

// tellFault tells a fault of a watch: the frames around it, and the writes that it is about.
func (c *checker) tellFault(t *truth, w *watchRecord, err error) []Step {
	var f *watchcheck.Fault
	if !errors.As(err, &f) {
		return c.run.tellFrames(w, -1, "")
	}
	should := ""
	var about []version
	if e := &f.Event; e.Revision > 0 {
		should = fmt.Sprintf("%s %s %d %s", e.Type, e.Key.Name, e.Revision, e.Labels[valueLabel])
		if f.Frame < 0 || w.watch.Frames[f.Frame].Revision != e.Revision {
			should += " before it"
		}
		about = append(about, version{e.Key, e.Revision})
	}
	if f.Frame >= 0 {
		if should == "" {
			should = "another frame, or none"
		}
		if frame := &w.watch.Frames[f.Frame]; frame.Key.Name != "" {
			about = append(about, version{frame.Key, frame.Revision})
		}
	}
	return c.run.story(append(c.run.tellFrames(w, f.Frame, should), t.of(c.run, about...)...)...)
}
