package verify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// checkWatch checks the status of one watch, its frames with all validators, and the state that
// it started with.
func (c *checker) checkWatch(t *truth, w *watchRecord) {
	switch {
	// The changes after these revisions may be compacted.
	case w.Status == http.StatusGone && (w.Class == versionExpired || w.Class == versionSeen):
		c.count(Answers)
		return
	// Failures and throttling promise nothing.
	case w.hasUnknownOutcome() || w.Status == http.StatusTooManyRequests:
		return
	// No other refusal is allowed. Err says that the stream is of an unknown type.
	case w.Status != http.StatusOK || w.Err != "":
		c.count(Answers)
		c.addViolation(Answers, w.Server, []Step{w.step(c.run)}, "status %d: %s", w.Status, w.Err)
		return
	}
	if w.endedAtTimeout(c.run) {
		w.watch.Ended = false
	}
	c.checkFrames(t, w)
	if w.Class == versionUnset && w.watch.Initial {
		c.checkStart(t, w)
	}
}

// endedAtTimeout reports whether the server may have closed the watch before its initial events
// were complete. kube-apiserver closes a watch at its timeout even if etcd was down meanwhile.
// Such a watch is not held to have ended regularly, if another request to this server failed as
// well.
func (w *watchRecord) endedAtTimeout(r *run) bool {
	return w.isLate && r.servers[w.Server].failedAfter(r.start.Add(w.Called))
}

// checkFrames runs all validators on a watch. A missing event breaks several guarantees, and is
// reported once.
func (c *checker) checkFrames(t *truth, w *watchRecord) {
	reported := map[version]bool{}
	for _, v := range watchcheck.Validators() {
		c.count(Watching)
		err := v.Check(&t.Truth, &w.watch)
		if err == nil {
			continue
		}
		if f := faultOf(err); f != nil && f.Event.Revision > 0 {
			missing := version{f.Event.Key, f.Event.Revision}
			if reported[missing] {
				continue
			}
			reported[missing] = true
		}
		text := strings.ReplaceAll(err.Error(), c.run.fixture.namespace+"/", "")
		c.addViolation(Watching, w.Server, c.faultSteps(t, w, faultOf(err)), "%s: %s", v.Name, text)
	}
}

// faultOf returns the fault that a validator's error has, nil if it has none.
func faultOf(err error) (f *watchcheck.Fault) {
	errors.As(err, &f)
	return f
}

// checkStart checks that a watch without a version started with a state that has every write
// acknowledged before. It says nothing about a watch whose initial events may be incomplete.
func (c *checker) checkStart(t *truth, w *watchRecord) {
	revision, isComplete := w.watch.LatestStart(&t.Truth)
	if !isComplete {
		return
	}
	c.count(Fresh)
	before := t.returned.newestBefore(w.Called)
	if before == nil {
		return
	}
	acknowledged := t.revision(before)
	if revision >= t.lastSelectedChange(&w.watch.Selection, acknowledged) {
		return
	}
	story := append(c.run.watchSteps(w, firstFrame, ""), before.step(c.run))
	story[0] = story[0].withWant("a state of revision %d or newer", acknowledged)
	c.addViolation(Fresh, w.Server, newStory(story...),
		"the watch began with the state at revision %d, after revision %d was acknowledged", revision, acknowledged)
}

// lastSelectedChange returns the revision of the last change at or before revision that affects
// the selection, 0 if there is none. Initial events cannot prove a newer revision.
func (t *truth) lastSelectedChange(s *watchcheck.Selection, revision int64) int64 {
	events := t.ExpectedEvents(s, 0, revision)
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Revision
}

// faultSteps returns the story of a fault: the frames around it, and the writes that it is about.
// They made the versions in the frame at fault and in the missing event. Without a fault the
// story has the last frames only.
func (c *checker) faultSteps(t *truth, w *watchRecord, f *watchcheck.Fault) []Step {
	if f == nil {
		return c.run.watchSteps(w, noFrame, "")
	}
	want := ""
	var versions []version
	if e := &f.Event; e.Revision > 0 {
		want = fmt.Sprintf("%s %s %d %s", e.Type, e.Key.Name, e.Revision, e.Labels[valueLabel])
		switch {
		case f.Frame == noFrame:
			want += " in this watch"
		case w.watch.Frames[f.Frame].Revision != e.Revision:
			want += ", before this frame"
		}
		versions = append(versions, version{e.Key, e.Revision})
	}
	if f.Frame != noFrame {
		want = cmp.Or(want, "another frame, or none")
		if frame := &w.watch.Frames[f.Frame]; frame.Key.Name != "" {
			versions = append(versions, version{frame.Key, frame.Revision})
		}
	}
	return newStory(append(c.run.watchSteps(w, f.Frame, want), t.makerSteps(c.run, versions...)...)...)
}
