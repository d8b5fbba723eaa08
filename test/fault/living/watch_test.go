package living

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/changingupstream"
)

const (
	// watchesAtOnce is how many watches a client has at a time.
	watchesAtOnce = 2
	// eventDelay is how long an event may be on its way, beside the grace.
	eventDelay = time.Second
	// silence is how long a watch may be behind without ending.
	silence = 95 * time.Second
)

// watches are those of all clients of a script.
type watches struct {
	running sync.WaitGroup
	// stop ends them at the end of the script.
	stop context.Context
	mu   struct {
		sync.Mutex
		open map[*openWatch]bool
	}
}

func newWatches(stop context.Context) *watches {
	w := &watches{stop: stop}
	w.mu.open = map[*openWatch]bool{}
	return w
}

// openWatch is one of them.
type openWatch struct {
	*reader
	target
	accept, path string
	// frames guards the frames of the watch while it is open.
	frames sync.Mutex
	watch  watchcheck.Watch
	// generation is what the answer says of the definition.
	generation int
	// reached is the revision of the last event or bookmark behind the initial ones.
	reached atomic.Int64
	opened  time.Time
}

// watch opens a watch, unless the client has enough of them, and reads it beside.
func (r *reader) watch(t target) {
	select {
	case r.places <- struct{}{}:
	default:
		return
	}
	w := &openWatch{reader: r, target: t, accept: r.form(t), path: t.path() + "?watch=true"}
	w.watch.Start = watchcheck.Start{Selection: watchcheck.Selection{Namespace: t.namespace}, Initial: true}
	switch r.random.IntN(5) {
	case 0:
		w.path += "&resourceVersion=0"
	case 1:
	case 2:
		w.path += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		w.watch.End, w.watch.Bookmarks = true, true
	default:
		if last := r.revisions[t.Resource]; last > 0 {
			w.path += fmt.Sprintf("&resourceVersion=%d", last)
			w.watch.Initial, w.watch.Revision = false, last
		}
	}
	r.selectLabels(&w.path, &w.watch.Selection)
	if w.watch.Bookmarks || r.random.IntN(2) == 0 {
		w.watch.Bookmarks = true
		w.path += "&allowWatchBookmarks=true"
		w.watch.End = w.watch.Initial // servers tell clients of bookmarks that the initial events end
	}
	w.path += "&timeoutSeconds=" + r.pick("1", "3", "3600", "3600")
	r.watches.running.Go(func() {
		defer func() { <-r.places }()
		w.run()
	})
}

// run reads the watch until it ends.
func (w *openWatch) run() {
	ctx := w.watches.stop
	w.opened = time.Now()
	a, body := w.Open(ctx, changingupstream.Call{Method: http.MethodGet, Path: w.path, Accept: w.accept})
	if body == nil {
		if ctx.Err() == nil && !w.excused(a) {
			w.tally.find(unanswered, "%s: %v", w.path, a.Err)
		}
		return
	}
	defer body.Close()
	if a.Status != http.StatusOK {
		a.Body, a.Err = io.ReadAll(body)
		a.Ended = time.Now()
		if ctx.Err() == nil && a.Status != http.StatusGone {
			w.refused(w.target, w.path, a, false)
		}
		return
	}
	a.Ended = time.Now()
	w.generation = a.Generation()
	if w.isForeign(w.target, w.path, a, w.between(w.target, a.Began, a.Ended)) {
		_, _ = io.Copy(io.Discard, body) // it ends by itself
		return
	}
	w.judgeGeneration(w.target, w.path, a, w.between(w.target, a.Began, a.Ended))
	w.watches.mu.Lock()
	w.watches.mu.open[w] = true
	w.watches.mu.Unlock()
	w.read(ctx, body)
	w.watches.mu.Lock()
	delete(w.watches.mu.open, w)
	w.watches.mu.Unlock()
	w.tally.add(func(t *tallyCounts) {
		t.watches++
		t.events += len(w.watch.Frames)
		if a.PassedOn() {
			t.passed++
		} else {
			t.here++
		}
	})
	w.judge(ctx)
}

// read reads the events.
func (w *openWatch) read(ctx context.Context, body io.Reader) {
	frames, err := watchcheck.NewReader(body, w.accept)
	if err != nil {
		w.tally.find("watch that cannot be read", "%s: %v", w.path, err)
		return
	}
	for {
		raw, f, err := frames.Next()
		if err != nil {
			w.frames.Lock()
			defer w.frames.Unlock()
			ended := errors.Is(err, io.EOF)
			// A server that ends closes its watches wherever they are.
			now := time.Now()
			w.watch.Ended = ended && !w.script.Outages.Overlap(now, now, terminateTimeout)
			if !ended && ctx.Err() == nil {
				w.watch.Err = err
				w.tally.status(fmt.Sprintf("watch broke: %s", names.ReplaceAllString(err.Error(), "*")))
			}
			return
		}
		w.frames.Lock()
		w.watch.Frames = append(w.watch.Frames, f)
		w.frames.Unlock()
		switch f.Type {
		case watchcheck.Error:
			if f.Status.Code != http.StatusGone {
				w.tally.status(fmt.Sprintf("event %d %s", f.Status.Code, names.ReplaceAllString(f.Status.Message, "*")))
			}
		case watchcheck.Bookmark:
			w.reached.Store(f.Revision)
		default:
			w.event(ctx, raw, &f)
			w.reached.Store(max(w.reached.Load(), f.Revision))
		}
	}
}

// event compares the object of an event with the upstream's.
func (w *openWatch) event(ctx context.Context, raw []byte, f *watchcheck.Frame) {
	content, err := frameAsJSON(raw, w.accept)
	var o *changingupstream.Object
	if err == nil {
		o, err = changingupstream.NewObject(content)
	}
	if err != nil {
		w.tally.find("event that cannot be read", "%s: %v: %.300s", w.path, err, raw)
		return
	}
	if f.Type == watchcheck.Deleted {
		// It is the object before the deletion, at the revision of the deletion.
		before := w.before(ctx, f)
		if before == 0 {
			return // which watchcheck finds
		}
		o = o.WithRevision(before)
	}
	sent := f.Received.Add(-eventDelay)
	if sent.Before(w.opened) {
		sent = w.opened
	}
	among := w.betweenEvents(w.target, sent, f.Received)
	w.compare(ctx, w.target, fmt.Sprintf("%s, opened at %s in generation %d: %s at %d", w.path, w.opened.Format("04:05.000"), w.generation, f.Type, f.Revision), among, o)
}

// before returns the revision that an object had before it left the selection.
func (w *openWatch) before(ctx context.Context, f *watchcheck.Frame) int64 {
	truth, err := w.script.Truth(context.WithoutCancel(ctx), w.Resource, f.Revision)
	if err != nil {
		return 0
	}
	for i := len(truth.Changes) - 1; i >= 0; i-- {
		if c := &truth.Changes[i]; c.Revision == f.Revision && c.Key == f.Key && c.Before != nil {
			return c.Before.Revision
		}
	}
	return 0
}

// judge compares the watch with etcd's truth.
func (w *openWatch) judge(ctx context.Context) {
	last := w.watch.Revision
	for i := range w.watch.Frames {
		last = max(last, w.watch.Frames[i].Revision)
	}
	truth, err := w.script.Truth(context.WithoutCancel(ctx), w.Resource, last)
	if err != nil {
		w.tally.find("watch that tells of what etcd does not have", "%s: %v", w.path, err)
		return
	}
	if err := watchcheck.Validate(truth, &w.watch); err != nil {
		w.tally.find("watch that breaks a promise", "%s, opened at %s in generation %d, %d frames: %v", w.path, w.opened.Format("04:05.000"), w.generation, len(w.watch.Frames), err)
	}
}

// behind returns an error while the watch has not got the last event.
func (w *openWatch) behind(ctx context.Context) error {
	truth, err := w.script.Truth(ctx, w.Resource, w.LastAcknowledged())
	if err != nil {
		return err
	}
	w.frames.Lock()
	now := watchcheck.Watch{Start: w.watch.Start, Frames: slices.Clip(w.watch.Frames)}
	w.frames.Unlock()
	began, _ := now.LatestStart(truth)
	reached := max(began, w.reached.Load())
	for i := len(truth.Changes) - 1; i >= 0 && truth.Changes[i].Revision > reached; i-- {
		c := &truth.Changes[i]
		if w.watch.Matches(c.Key, c.Before) || w.watch.Matches(c.Key, c.After) {
			return fmt.Errorf("%s, opened at %s in generation %d, is at %d, and not at %d, %s", w.path, w.opened.Format("04:05.000"), w.generation, reached, c.Revision, c.Key)
		}
	}
	return nil
}

// drain waits until each open watch has the last events.
func (w *watches) drain(ctx context.Context) {
	deadline := time.Now().Add(silence)
	for {
		w.mu.Lock()
		var late []*openWatch
		for watch := range w.mu.open {
			late = append(late, watch)
		}
		w.mu.Unlock()
		late = slices.DeleteFunc(late, func(watch *openWatch) bool { return watch.behind(ctx) == nil })
		if len(late) == 0 {
			return
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			for _, watch := range late {
				watch.tally.find("watch that is silent", "%v, %v after the last change", watch.behind(ctx), silence)
			}
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}
