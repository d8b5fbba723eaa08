package etcdfeed_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

// remove deletes a key and returns the revision.
func remove(t *testing.T, client clientv3.KV, key string) int64 {
	t.Helper()
	resp, err := client.Delete(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func compact(t *testing.T, client clientv3.KV, revision int64) {
	t.Helper()
	if _, err := client.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// wantHistory compares the revision of a sink's last load, the one it was told to expect,
// and the revisions of all events.
func (m *mirror) wantHistory(t *testing.T, loaded, expected int64, applied ...int64) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.mu.revisions); n == 0 || m.mu.revisions[n-1] != loaded || m.mu.expected[n-1] != expected {
		t.Errorf("loads are at %v and expect %v, want %d and %d last", m.mu.revisions, m.mu.expected, loaded, expected)
	}
	if !slices.Equal(m.mu.applied, applied) {
		t.Errorf("events have revisions %v, want %v", m.mu.applied, applied)
	}
}

// TestFeedReplaysHistory starts feeds over an etcd with older revisions. The newest one is
// of a key outside the feed's prefix.
func TestFeedReplaysHistory(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	revisions := []int64{
		put(t, kv, "/registry/a", "1"), put(t, kv, "/registry/b", "1"), put(t, kv, "/registry/a", "2"),
		remove(t, kv, "/registry/b"), put(t, kv, "/registry/c", "1"),
	}
	newest := put(t, kv, "/other/d", "1")
	for _, test := range []struct {
		name      string
		history   int64
		compacted int64
		loaded    int64
		applied   []int64
	}{
		{"all", 0, 0, 1, revisions},
		{"bounded", 3, 0, revisions[2], revisions[3:]},
		{"none", -1, 0, newest, nil},
		{"compacted", 0, revisions[1], revisions[1], revisions[2:]},
		{"compacted behind the bound", 2, revisions[2], revisions[3], revisions[4:]},
		{"compacted at a deletion", 0, revisions[3], revisions[3], revisions[4:]},
		{"compacted to the end", 0, newest, newest, nil},
	} {
		if test.compacted > 0 {
			compact(t, kv, test.compacted)
		}
		sink := &mirror{}
		f, stop := followWith(t, etcdfeed.FeedConfig{Client: kv, Sink: sink, HistoryRevisions: test.history})
		eventually(t, test.name+": replayed", func() bool { return f.Healthy() == nil })
		stop()
		t.Log(test.name)
		sink.wantObjects(t, map[string]string{"/registry/a": "2", "/registry/c": "1"})
		sink.wantHistory(t, test.loaded, newest, test.applied...)
		if !sink.reached(newest)() {
			t.Error("the feed was healthy before its sink had all of etcd's revisions")
		}
	}
}

// TestFeedReplaysMuch replays more than the 1,000 revisions of one watch response.
func TestFeedReplaysMuch(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	want := map[string]string{}
	var newest int64
	for i := range 2500 {
		key := fmt.Sprintf("/registry/%d", i%7)
		want[key] = fmt.Sprint(i)
		newest = put(t, kv, key, want[key])
	}
	sink := &healthWatcher{mirror: &mirror{}, until: newest}
	sink.feed = etcdfeed.NewFeed(etcdfeed.FeedConfig{
		Client: kv, Prefix: "/registry/", Sink: sink, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	stop := run(t, sink.feed)
	eventually(t, "replayed", func() bool { return sink.feed.Healthy() == nil })
	stop()
	sink.wantObjects(t, want)
	if n := len(sink.mu.applied); n != 2500 || !slices.IsSorted(sink.mu.applied) {
		t.Errorf("%d events, sorted %v", n, slices.IsSorted(sink.mu.applied))
	}
	if sink.early.Load() {
		t.Error("the feed was healthy while it replayed")
	}
}

// healthWatcher is a sink that notes whether the feed is healthy too early.
type healthWatcher struct {
	*mirror
	feed  *etcdfeed.Feed
	until int64
	early atomic.Bool
}

func (h *healthWatcher) Apply(ctx context.Context, events []feed.Object) {
	if events[0].Revision <= h.until && h.feed.Healthy() == nil {
		h.early.Store(true)
	}
	h.mirror.Apply(ctx, events)
}

// compactingSink compacts etcd, at the end of each of its first loads, to the newest
// revision.
type compactingSink struct {
	*mirror
	t     *testing.T
	kv    clientv3.KV
	times int
	to    []int64
}

func (c *compactingSink) BeginLoad() feed.Loader {
	return &compactingLoad{c.mirror.BeginLoad(), c}
}

type compactingLoad struct {
	feed.Loader
	sink *compactingSink
}

func (l *compactingLoad) End(ctx context.Context, revision int64) {
	l.sink.compact(ctx)
	l.Loader.End(ctx, revision)
}

func (c *compactingSink) compact(ctx context.Context) {
	if len(c.to) == c.times {
		return
	}
	newest, err := etcdfeed.Revision(ctx, c.kv, "/registry/")
	if err != nil {
		c.t.Error(err)
		return
	}
	c.to = append(c.to, newest)
	if _, err := c.kv.Compact(ctx, newest); err != nil {
		c.t.Error(err)
	}
	for range 3 {
		if _, err := c.kv.Put(ctx, "/registry/a", "later"); err != nil {
			c.t.Error(err)
		}
	}
}

// TestFeedLosesHistoryWhileLoading: the feed loads again at the oldest revision that is
// left, and in the end at the newest.
func TestFeedLosesHistoryWhileLoading(t *testing.T) {
	t.Parallel()
	for times, wantLoads := range map[int]int{1: 2, 2: 3, 20: 4} {
		e := etcdtest.Open(t, etcdtest.Config(t))
		kv := e.Client().Client
		for range 5 {
			put(t, kv, "/registry/a", "1")
		}
		sink := &compactingSink{mirror: &mirror{}, t: t, kv: kv, times: times}
		f, stop := follow(t, kv, sink)
		eventually(t, "replayed", func() bool { return f.Healthy() == nil })
		last := put(t, kv, "/registry/b", "1")
		eventually(t, "followed", sink.reached(last))
		stop()
		sink.wantObjects(t, map[string]string{"/registry/a": "later", "/registry/b": "1"})
		loads := sink.mu.revisions
		if len(loads) != wantLoads || !slices.IsSorted(loads) {
			t.Errorf("compacted %d times: loads at %v, want %d", times, loads, wantLoads)
			e.Close()
			continue
		}
		// The last load is at the revision of the compaction before it. If the feed has given up
		// replaying the history, it is at etcd's newest revision.
		if want := sink.to[min(times, wantLoads)-1]; loads[wantLoads-1] != want {
			t.Errorf("compacted %d times, to %v: loads at %v, want %d last", times, sink.to, loads, want)
		}
		e.Close()
	}
}

// TestFeedReplaysAfterReload: after a compaction that the feed missed, it loads the oldest
// revision that etcd has and replays the events since.
func TestFeedReplaysAfterReload(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	loaded := put(t, kv, "/registry/a", "1")
	sink := &mirror{}
	w := newWire(t, e)
	follow(t, w.client, sink)
	eventually(t, "load", sink.reached(loaded))

	w.cut()
	put(t, kv, "/registry/b", "1")
	left := put(t, kv, "/registry/a", "2")
	after := []int64{put(t, kv, "/registry/a", "3"), remove(t, kv, "/registry/b")}
	compact(t, kv, left)
	w.restore()
	eventually(t, "replay", sink.reached(after[1]))
	sink.wantObjects(t, map[string]string{"/registry/a": "3"})
	sink.wantHistory(t, left, after[1], append([]int64{loaded}, after...)...)
}

// TestFeedNeverGoesBack: a load is never of a revision before the applied one.
func TestFeedNeverGoesBack(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	first := put(t, kv, "/registry/a", "1")
	sink := &mirror{}
	f, stop := follow(t, kv, sink)
	eventually(t, "replayed", sink.reached(first))
	stop()
	second := put(t, kv, "/registry/a", "2")
	run(t, f)
	eventually(t, "replayed again", sink.reached(second))
	sink.wantHistory(t, first, second, first, second)
}

// TestFeedDoesNotReplayImports: a few revisions may have many objects, which the bound of
// revisions alone would let through.
func TestFeedDoesNotReplayImports(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	want := map[string]string{"/registry/a": "1"}
	put(t, kv, "/registry/a", "1")
	var ops []clientv3.Op
	for i := range 20 {
		key := fmt.Sprintf("/registry/%d", i)
		want[key] = "1"
		ops = append(ops, clientv3.OpPut(key, "1"))
	}
	resp, err := kv.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	for history, loaded := range map[int64]int64{21: 1, 20: resp.Header.Revision} {
		sink := &mirror{}
		f, stop := followWith(t, etcdfeed.FeedConfig{Client: kv, Sink: sink, HistoryRevisions: history})
		eventually(t, "loaded", func() bool { return f.Healthy() == nil })
		stop()
		sink.wantObjects(t, want)
		if got := sink.mu.revisions[0]; got != loaded {
			t.Errorf("history of %d: loaded at revision %d, want %d", history, got, loaded)
		}
	}
}
