package etcdfeed_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// runToEnd runs a feed and returns a channel with what Run returns.
func runToEnd(t *testing.T, f *etcdfeed.Feed) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return ended
}

func wantWentBack(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, feed.ErrWentBack) {
			t.Errorf("Run() = %v, want ErrWentBack", err)
		}
	case <-time.After(time.Minute):
		t.Error("the feed goes on over an etcd that was restored from a backup")
	}
}

// TestFeedNoticesOlderRevision: a quorum's revision that is older than the feed's ends the
// feed, and the consistent read that has asked for it.
func TestFeedNoticesOlderRevision(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	first := put(t, e.Client().Client, "/registry/a", "1")
	client := clientv3.NewCtxClient(t.Context())
	old := &oldRevisions{KV: e.Client().Client.KV, revision: first - 1}
	client.KV, client.Watcher = old, e.Client().Client.Watcher
	sink := &mirror{}
	f := etcdfeed.NewFeed(etcdfeed.FeedConfig{Client: client, Prefix: "/registry/", Sink: sink, Logger: quiet()})
	ended := runToEnd(t, f)
	eventually(t, "followed", func() bool { return f.Healthy() == nil })
	old.on.Store(true)
	if _, err := f.Revision(t.Context()); !errors.Is(err, feed.ErrWentBack) {
		t.Errorf("Revision() = %v, want ErrWentBack", err)
	}
	wantWentBack(t, ended)
}

// oldRevisions answers ranges with an old revision once it is switched on.
type oldRevisions struct {
	clientv3.KV
	revision int64
	on       atomic.Bool
}

func (o *oldRevisions) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := o.KV.Get(ctx, key, opts...)
	if err == nil && o.on.Load() && len(opts) == 2 { // that of Revision
		resp.Header.Revision = o.revision
	}
	return resp, err
}

// keptObjects is a checkpoint in memory.
type keptObjects struct {
	revision int64
	missing  []string
	objects  []feed.Object
	damage   error
}

func (k *keptObjects) Revision() int64           { return k.revision }
func (k *keptObjects) MissingPrefixes() []string { return k.missing }
func (k *keptObjects) Close() error              { return nil }

func (k *keptObjects) Witness() *feed.Object {
	if len(k.objects) == 0 {
		return nil
	}
	newest := slices.MaxFunc(k.objects, func(a, b feed.Object) int { return int(a.Revision - b.Revision) })
	return &newest
}

func (k *keptObjects) Load(ctx context.Context, to feed.Loader) error {
	to.Add(ctx, k.objects)
	return k.damage
}

// TestFeedResumesFromCheckpoint begins with what was kept, and reads of etcd no more than
// what the checkpoint lacks and what came after it. A checkpoint that does not fit is not
// used.
func TestFeedResumesFromCheckpoint(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	kv := e.Client().Client
	secret := put(t, kv, "/registry/secrets/s", "encrypted")
	a := put(t, kv, "/registry/a", "1")
	b := put(t, kv, "/registry/b", "1")
	put(t, kv, "/registry/secrets/s", "encrypted later")
	newest := put(t, kv, "/registry/a", "2")
	after := []int64{newest - 1, newest}
	want := map[string]string{"/registry/a": "2", "/registry/b": "1", "/registry/secrets/s": "encrypted later"}
	object := func(key, value string, revision int64) feed.Object {
		return feed.Object{Key: []byte(key), Value: []byte(value), Revision: revision}
	}
	sound := keptObjects{revision: b, missing: []string{"/registry/secrets/"}, objects: []feed.Object{object("/registry/a", "1", a), object("/registry/b", "1", b)}}
	change := func(by func(*keptObjects)) func() (feed.Checkpoint, error) {
		changed := sound
		changed.objects = slices.Clone(sound.objects)
		by(&changed)
		return func() (feed.Checkpoint, error) { return &changed, nil }
	}
	for name, test := range map[string]struct {
		kept    func() (feed.Checkpoint, error)
		resumed bool
	}{
		"sound":             {change(func(*keptObjects) {}), true},
		"damaged":           {change(func(k *keptObjects) { k.damage = errors.New("damaged") }), false},
		"foreign object":    {change(func(k *keptObjects) { k.objects[1] = object("/registry/b", "2", b) }), false},
		"foreign key":       {change(func(k *keptObjects) { k.objects[1] = object("/registry/c", "1", b) }), false},
		"ahead of etcd":     {change(func(k *keptObjects) { k.revision = newest + 1 }), false},
		"empty":             {change(func(k *keptObjects) { k.objects = nil }), false},
		"of another source": {func() (feed.Checkpoint, error) { return nil, errors.New("other") }, false},
		"none":              {func() (feed.Checkpoint, error) { return nil, nil }, false},
	} {
		counted := &countingKV{KV: kv.KV}
		client := clientv3.NewCtxClient(t.Context())
		client.KV, client.Watcher = counted, kv.Watcher
		sink := &mirror{}
		_, stop := followWith(t, etcdfeed.FeedConfig{Client: client, Sink: sink, HistoryRevisions: 100, Checkpoint: func(uint64) (feed.Checkpoint, error) { return test.kept() }})
		eventually(t, name+": followed", sink.reached(newest))
		stop()
		t.Log(name)
		sink.wantObjects(t, want)
		if !test.resumed {
			sink.wantHistory(t, 1, newest, secret, a, b, newest-1, newest)
			continue
		}
		sink.wantHistory(t, b, newest, after...)
		if keys := counted.keys.Load(); keys != 2 { // the witness, and what the checkpoint lacks
			t.Errorf("etcd visited %d keys", keys)
		}
	}
	compact(t, kv, newest)
	sink := &mirror{}
	_, stop := followWith(t, etcdfeed.FeedConfig{Client: kv, Sink: sink, Checkpoint: func(uint64) (feed.Checkpoint, error) { return &sound, nil }})
	eventually(t, "loaded anew behind a compaction", sink.reached(newest))
	stop()
	sink.wantObjects(t, want)
	sink.wantHistory(t, newest, newest)
}
