package feedtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// Run runs all cases, each over a source of its own.
func Run(t *testing.T, open func(t *testing.T) Source) {
	for _, c := range []struct {
		name  string
		check func(*bench)
	}{
		{"load", testLoad},
		{"events", testEvents},
		{"progress", testProgress},
		{"newest revision", testNewestRevision},
		{"reconnect", testReconnect},
		{"forgotten history", testForgottenHistory},
		{"health", testHealth},
		{"context ends", testContextEnds},
		{"context ends without source", testContextEndsWithoutSource},
		{"restored backup, lower revision", func(b *bench) { testRestored(b, 0) }},
		{"restored backup, equal revision", func(b *bench) { testRestored(b, writesAfterBackup) }},
		{"restored backup, higher revision", func(b *bench) { testRestored(b, 3*writesAfterBackup) }},
		{"restored backup, lost deletion", testLostDeletion},
		{"late reader", testLateReader},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(newBench(t, open(t)))
		})
	}
}

// testLoad starts a feed where there are objects already, of more than one page.
func testLoad(b *bench) {
	for i := range 700 {
		b.put(fmt.Sprintf("object-%03d", i), "first")
	}
	b.putSome("x")
	b.run()
	got := b.awaitContents("the load", func(c contents) bool { return len(c.loads) > 0 && c.applied >= c.expected })
	if len(got.loads) != 1 {
		b.Errorf("loads at %v, want one", got.loads)
	}
	b.compare(got)
}

// testEvents changes objects under a feed, the last one often.
func testEvents(b *bench) {
	b.putSome("before")
	b.run()
	b.reach(b.put("begin", "x"))
	b.putSome("after")
	for i := range 300 {
		b.put("often", fmt.Sprint(i))
	}
	if got := b.reach(b.delete("often")); len(got.loads) != 1 {
		b.Errorf("loads at %v, want one", got.loads)
	}
}

// testProgress moves the source without an event.
func testProgress(b *bench) {
	b.run()
	b.reach(b.put("a", "1"))
	events := len(b.reach(b.put("a", "2")).events)
	elsewhere := b.source.PutElsewhere(b.T)
	b.poll("progress", func() bool {
		if err := b.feed.RequestProgress(b.Context()); err != nil {
			b.Fatal(err)
		}
		got, _ := b.sink.contents()
		return got.applied >= elsewhere
	})
	if got := b.reach(elsewhere); len(got.events) != events || len(got.loads) != 1 {
		b.Errorf("%d events and loads at %v, want %d and one", len(got.events), got.loads, events)
	}
}

// testNewestRevision asks for the newest revision after each of many writes.
func testNewestRevision(b *bench) {
	b.run()
	b.reach(b.put("a", "1"))
	for i := range 50 {
		written := b.put("a", fmt.Sprint(i))
		if i%7 == 0 {
			written = b.source.PutElsewhere(b.T)
		}
		if revision, err := b.feed.Revision(b.Context()); err != nil || revision < written {
			b.Errorf("the newest revision is %d, %v, and %d was written", revision, err, written)
		}
	}
}

// testReconnect breaks the feed twice, without writes meanwhile and with some.
func testReconnect(b *bench) {
	b.putSome("before")
	b.run()
	b.reach(b.put("begin", "x"))
	b.source.Break(b.T)
	b.source.Mend(b.T)
	b.reach(b.put("between", "x"))
	b.source.Break(b.T)
	last := b.putSome("missed")
	b.source.Mend(b.T)
	b.reach(last)
	if got := b.reach(b.delete("between")); len(got.loads) != 1 {
		b.Errorf("loads at %v, want one: the history was there", got.loads)
	}
}

// testForgottenHistory makes the source forget the changes that a feed has missed.
func testForgottenHistory(b *bench) {
	b.putSome("before")
	b.run()
	b.reach(b.put("begin", "x"))
	b.source.Break(b.T)
	b.delete("before-1")
	b.putSome("missed")
	b.source.Forget(b.T)
	b.source.Mend(b.T)
	b.awaitContents("the second load", func(c contents) bool { return len(c.loads) == 2 })
	if got := b.reach(b.put("end", "x")); len(got.loads) != 2 {
		b.Errorf("loads at %v, want two", got.loads)
	}
}

// testHealth looks at a feed's health before it runs, while it follows, while it is broken,
// and after it follows again.
func testHealth(b *bench) {
	if b.feed.Healthy() == nil || !b.feed.BrokenSince().IsZero() {
		b.Errorf("before Run: healthy %v, broken since %v", b.feed.Healthy(), b.feed.BrokenSince())
	}
	b.source.Break(b.T)
	b.run()
	first := b.put("a", "1")
	if b.feed.Healthy() == nil || !b.feed.BrokenSince().IsZero() {
		b.Errorf("before the load: healthy %v, broken since %v", b.feed.Healthy(), b.feed.BrokenSince())
	}
	b.source.Mend(b.T)
	b.reach(first)
	if since := b.feed.BrokenSince(); !since.IsZero() {
		b.Errorf("a feed that follows is broken since %v", since)
	}
	began := time.Now()
	b.source.Break(b.T)
	b.poll("broken", func() bool { return b.feed.Healthy() != nil })
	if since := b.feed.BrokenSince(); since.Before(began) || since.After(time.Now()) {
		b.Errorf("broken since %v, and broke after %v", since, began)
	}
	if _, err := b.feed.Revision(shortly(b)); err == nil {
		b.Error("a source that is away has a newest revision")
	}
	b.source.Mend(b.T)
	b.reach(b.put("a", "2"))
	if since := b.feed.BrokenSince(); !since.IsZero() {
		b.Errorf("a feed that follows again is broken since %v", since)
	}
}

// shortly returns a context for a question to a source that is away.
func shortly(b *bench) context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), time.Second)
	b.Cleanup(cancel)
	return ctx
}

// testContextEnds ends the context of a feed that follows.
func testContextEnds(b *bench) {
	b.run()
	b.reach(b.put("a", "1"))
	b.stop()
	b.wantEnd(context.Canceled)
}

// testContextEndsWithoutSource ends the context of a feed that finds no source.
func testContextEndsWithoutSource(b *bench) {
	b.source.Break(b.T)
	b.run()
	b.stop()
	b.wantEnd(context.Canceled)
}

// writesAfterBackup is how many writes a restored backup lacks.
const writesAfterBackup = 10

// testRestored replaces the source's state by an older backup, and then makes new writes. So the
// source's revision becomes lower than the sink's, equal to it, or higher.
func testRestored(b *bench, writes int) {
	b.put("a", "1")
	b.source.Backup(b.T)
	for i := range writesAfterBackup - 1 {
		b.put("b", fmt.Sprint(i))
	}
	last := b.put("a", "2")
	b.run()
	before := b.reach(last)
	b.source.Break(b.T)
	b.source.Restore(b.T)
	for i := range writes {
		b.source.Put(b.T, "c", fmt.Sprint(i))
	}
	b.source.Mend(b.T)
	b.poll("no proof", func() bool {
		revision, err := b.feed.Revision(shortly(b))
		if err == nil {
			b.Fatalf("the source is at %d, which proves what the sink has up to %d", revision, last)
		}
		return errors.Is(err, feed.ErrWentBack) || len(b.ended) > 0
	})
	b.wantEnd(feed.ErrWentBack)
	got, _ := b.sink.contents()
	if got.applied != before.applied || len(got.events) != len(before.events) || !slices.Equal(got.loads, before.loads) {
		b.Errorf("the sink was given another history: loads at %v, %d events, revision %d", got.loads, len(got.events), got.applied)
	}
	if !errors.Is(b.feed.Healthy(), feed.ErrWentBack) || b.feed.BrokenSince().IsZero() {
		b.Errorf("healthy: %v, broken since %v", b.feed.Healthy(), b.feed.BrokenSince())
	}
}

// testLostDeletion replaces the source's state by a backup that lacks the last change, a deletion.
// Writes elsewhere then raise the source's revision past the revision of the lost deletion.
func testLostDeletion(b *bench) {
	b.put("a", "1")
	b.put("b", "1")
	b.source.Backup(b.T)
	b.run()
	b.poll("followed", func() bool { return b.feed.Healthy() == nil })
	b.delete("b")
	b.awaitContents("the deletion", func(c contents) bool { return len(c.events) > 0 && c.events[len(c.events)-1].Deleted })
	b.source.Break(b.T)
	b.source.Restore(b.T)
	for range writesAfterBackup {
		b.source.PutElsewhere(b.T)
	}
	b.source.Mend(b.T)
	b.wantEnd(feed.ErrWentBack)
}

// testLateReader makes the source forget and write while a second feed loads. Each feed must have
// the state of its own revision.
func testLateReader(b *bench) {
	b.putSome("before")
	b.run()
	b.reach(b.put("begin", "x"))
	b.source.Forget(b.T)
	b.putSome("after")
	late := newBench(b.T, b.source)
	late.writes = b.writes
	late.run()
	last := late.put("end", "x")
	b.writes = late.writes
	b.reach(last)
	if got := late.reach(last); len(got.loads) != 1 {
		b.Errorf("loads at %v, want one", got.loads)
	}
}
