package feedtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

const (
	// patience bounds each wait. Feeds try again for seconds.
	patience = time.Minute
	// pollPeriod is the time between two polls.
	pollPeriod = 5 * time.Millisecond
)

// bench is a source, what was written to it, and a feed that follows it.
type bench struct {
	*testing.T
	source Source
	feed   feed.Feed
	sink   *Sink
	writes []Write
	// ended receives what Run returns.
	ended chan error
	// stop ends the feed, and waits for it.
	stop func()
}

// newBench makes a bench whose feed does not run.
func newBench(t *testing.T, source Source) *bench {
	b := &bench{T: t, source: source, sink: NewSink(t), ended: make(chan error, 1)}
	b.feed = source.Feed(t, b.sink)
	return b
}

// run runs the feed until stop is called or the test ends.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := b.feed.Run(ctx)
		b.sink.end()
		b.ended <- err
	}()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	b.Cleanup(b.stop)
}

func (b *bench) put(name, text string) int64 {
	b.Helper()
	w := Write{Name: name, Text: text}
	w.Revision = b.source.Put(b.T, name, text)
	b.writes = append(b.writes, w)
	return w.Revision
}

func (b *bench) delete(name string) int64 {
	b.Helper()
	w := Write{Name: name, Deleted: true}
	w.Revision = b.source.Delete(b.T, name)
	b.writes = append(b.writes, w)
	return w.Revision
}

// putSome writes and deletes objects, and returns the last revision.
func (b *bench) putSome(what string) (last int64) {
	b.Helper()
	for i := range 5 {
		b.put(fmt.Sprintf("%s-%d", what, i), "first")
	}
	b.put(what+"-1", "second")
	b.source.PutElsewhere(b.T)
	b.delete(what + "-2")
	b.put(what+"-2", "again")
	b.delete(what + "-3")
	return b.put("always", what)
}

// awaitContents waits for a condition that the sink's contents meet.
func (b *bench) awaitContents(what string, condition func(contents) bool) contents {
	b.Helper()
	deadline := time.After(patience)
	for {
		got, changed := b.sink.contents()
		if condition(got) {
			return got
		}
		select {
		case <-changed:
		case err := <-b.ended:
			b.Fatalf("%s: the feed has ended: %v", what, err)
		case <-deadline:
			b.Fatalf("%s: the sink has reached revision %d by loads at %v and %d events; the feed: %v", what, got.applied, got.loads, len(got.events), b.feed.Healthy())
		}
	}
}

// poll waits for a condition whose changes are not signalled, and polls it.
func (b *bench) poll(what string, condition func() bool) {
	b.Helper()
	for began := time.Now(); !condition(); <-time.After(pollPeriod) {
		if time.Since(began) > patience {
			b.Fatalf("timed out waiting for: %s; the feed: %v", what, b.feed.Healthy())
		}
	}
}

// reach waits until the sink has everything up to revision, and until the feed follows.
func (b *bench) reach(revision int64) contents {
	b.Helper()
	got := b.awaitContents(fmt.Sprintf("revision %d", revision), func(c contents) bool { return c.applied >= revision })
	b.poll("healthy", func() bool { return b.feed.Healthy() == nil })
	b.compare(got)
	return got
}

// compare compares the sink's objects with what was written, and the events after the last
// load.
func (b *bench) compare(got contents) {
	b.Helper()
	want := map[string]Write{}
	var after []Write
	loaded := got.loads[len(got.loads)-1]
	for _, w := range b.writes {
		if w.Revision > got.applied {
			continue
		}
		if want[b.source.Key(w.Name)] = w; w.Deleted {
			delete(want, b.source.Key(w.Name))
		}
		if w.Revision > loaded {
			after = append(after, w)
		}
	}
	for key, w := range want {
		if o := got.objects[key]; o.Revision != w.Revision || string(o.Value) != b.source.Value(w) {
			b.Errorf("%s is %q of revision %d, want %q of %d", key, o.Value, o.Revision, b.source.Value(w), w.Revision)
		}
	}
	if len(got.objects) != len(want) {
		b.Errorf("the sink has %d objects, want %d", len(got.objects), len(want))
	}
	if len(got.events) < len(after) {
		b.Errorf("the sink got %d events, want %d after its load", len(got.events), len(after))
		return
	}
	for i, e := range got.events[len(got.events)-len(after):] {
		w := after[i]
		if string(e.Key) != b.source.Key(w.Name) || e.Revision != w.Revision || e.Deleted != w.Deleted || !w.Deleted && string(e.Value) != b.source.Value(w) {
			b.Errorf("event %d is %+v, want %+v", i, e, w)
		}
	}
}

// wantEnd waits for the end of the feed with an error.
func (b *bench) wantEnd(want error) {
	b.Helper()
	select {
	case err := <-b.ended:
		if !errors.Is(err, want) {
			b.Errorf("Run returned %v, want %v", err, want)
		}
	case <-time.After(patience):
		b.Fatalf("the feed does not end; it is %v", b.feed.Healthy())
	}
}
