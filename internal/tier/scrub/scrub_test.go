package scrub_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/scrub"
)

const pods = "/registry/pods/"

// etcd answers GETs out of memory, all at one revision.
type etcd struct {
	clientv3.KV
	gets atomic.Int64
	mu   struct {
		sync.Mutex
		kvs      []*mvccpb.KeyValue
		revision int64
	}
	// alter changes an answer. It may be nil.
	alter func([]*mvccpb.KeyValue) []*mvccpb.KeyValue
	// fails makes GETs of values fail, and values counts them.
	fails  atomic.Bool
	values atomic.Int64
}

// Get implements clientv3.KV.
func (e *etcd) Get(_ context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	e.gets.Add(1)
	op := clientv3.OpGet(key, opts...)
	if !op.IsKeysOnly() {
		e.values.Add(1)
		if e.fails.Load() {
			return nil, context.DeadlineExceeded
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	resp := &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: e.mu.revision}}
	for _, kv := range e.mu.kvs {
		if string(kv.Key) < key || string(kv.Key) >= string(op.RangeBytes()) {
			continue
		}
		if resp.More = op.Limit() > 0 && int64(len(resp.Kvs)) == op.Limit(); resp.More {
			break
		}
		shown := &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, ModRevision: kv.ModRevision, Version: 1}
		if op.IsKeysOnly() {
			shown.Value = nil
		}
		resp.Kvs = append(resp.Kvs, shown)
	}
	if e.alter != nil {
		resp.Kvs = e.alter(resp.Kvs)
	}
	return resp, nil
}

// Revision implements cache.RevisionSource.
func (e *etcd) Revision(context.Context) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.revision, nil
}

// RequestProgress implements cache.RevisionSource.
func (e *etcd) RequestProgress(context.Context) error { return nil }

func (e *etcd) put(key, value string, revision int64) feed.Object {
	e.mu.Lock()
	defer e.mu.Unlock()
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: revision, Version: 1}
	sent := feed.Object{Key: kv.Key, Value: []byte(value), Revision: revision}
	i, found := slices.BinarySearchFunc(e.mu.kvs, key, func(kv *mvccpb.KeyValue, key string) int { return strings.Compare(string(kv.Key), key) })
	if found {
		e.mu.kvs[i] = kv
	} else {
		e.mu.kvs = slices.Insert(e.mu.kvs, i, kv)
	}
	e.mu.revision = max(e.mu.revision, revision)
	return sent
}

// bench is an etcd with 3,000 objects, a cache of it, and its scrubber.
type bench struct {
	*etcd
	cache    *cache.Cache
	resource *cache.Resource
	scrubber *scrub.Scrubber
	// sawWrong says that Check has failed.
	sawWrong atomic.Bool
	// alone says that no other server is known.
	alone atomic.Bool
}

// newBench makes a bench whose scrubber does not run yet: what a test corrupts in memory, it
// corrupts before.
func newBench(t *testing.T, alter func([]*mvccpb.KeyValue) []*mvccpb.KeyValue) *bench {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	b := &bench{etcd: &etcd{alter: alter}, cache: cache.New(cache.Config{Logger: logger})}
	b.resource = b.cache.Register(cache.Spec{Prefix: pods, GroupResource: schema.GroupResource{Resource: "pods"}})
	loader := b.cache.BeginLoad()
	for i := range 3000 {
		key := pods + string([]byte{'a' + byte(i/100%26), 'a' + byte(i/10%10), 'a' + byte(i%10), 'a' + byte(i/2600)})
		loader.Add(t.Context(), []feed.Object{b.put(key, "value of "+key, int64(i+1))})
	}
	loader.End(t.Context(), b.mu.revision)
	counters, err := scrub.NewMetrics(func(r metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.scrubber = scrub.New(scrub.Config{
		Client: b.etcd, Cache: b.cache, Consistent: cache.NewConsistent(b.cache, b.etcd),
		Prefix: "/registry/", Interval: time.Second, Pass: time.Second, OthersReady: func() bool { return !b.alone.Load() }, Metrics: counters, Logger: logger,
	})
	return b
}

// run runs the scrubber until the test ends.
func (b *bench) run(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.scrubber.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

// loads returns a number that grows by one with each load of the resource.
func (b *bench) loads(t *testing.T) int64 {
	t.Helper()
	at, _, err := b.resource.Log().Since(b.mu.revision)
	if err != nil {
		t.Fatal(err)
	}
	return int64(at)
}

// until polls a condition, and notes meanwhile whether Check has failed.
func (b *bench) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-tick.C:
			if b.scrubber.ReadyError() != nil {
				b.sawWrong.Store(true)
			}
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// wantRepair waits until an object has been replaced and the server is ready again.
func (b *bench) wantRepair(t *testing.T, key, value string, revision int64) {
	t.Helper()
	b.until(t, "the object is replaced", func() bool {
		e := b.resource.Snapshot().Get(key)
		same := false
		if e != nil && e.Revision == revision {
			_ = e.Read(func(v []byte) error { same = string(v) == value; return nil })
		}
		return same
	})
	b.until(t, "ready", func() bool { return b.sawWrong.Load() && b.scrubber.ReadyError() == nil })
	if !b.resource.HoldsDigest() || b.resource.Snapshot().Len() != len(b.mu.kvs) {
		t.Errorf("%d objects, etcd has %d", b.resource.Snapshot().Len(), len(b.mu.kvs))
	}
}

// TestChangedTree changes an object in memory past the digest.
func TestChangedTree(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	kv := b.mu.kvs[1500]
	b.resource.Snapshot().Get(string(kv.Key[len(pods):])).Revision++
	b.run(t)
	b.wantRepair(t, string(kv.Key[len(pods):]), string(kv.Value), kv.ModRevision)
}

// TestLostEvent changes an object in etcd without the cache. Another server's digest tells.
func TestLostEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	right := cache.New(cache.Config{})
	b.put(pods+"bbba", "new", 4000)
	b.cache.Progressed(4000)
	loader := right.BeginLoad()
	loader.Add(t.Context(), etcdfeed.Objects(b.mu.kvs))
	loader.End(t.Context(), 4000)
	theirs, revision, err := right.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b.run(t)
	b.scrubber.Observe("other", revision, theirs)
	b.wantRepair(t, "bbba", "new", 4000)
}

// TestLostEventOfNoResource has keys of no resource, before and after the pods. The cache has
// lost one of them, and etcd does not have another.
func TestLostEventOfNoResource(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	gone := b.put("/registry/a/gone", "old", 3500)
	b.cache.Apply(t.Context(), []feed.Object{gone})
	b.mu.kvs = slices.DeleteFunc(b.mu.kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == "/registry/a/gone" })
	b.put("/registry/zoo/lost", "new", 4000)
	b.cache.Progressed(4000)
	before := b.loads(t)
	b.run(t)
	b.scrubber.Observe("other", 4000, cache.Digest{})
	b.until(t, "the keys are replaced", func() bool {
		lost, _ := b.cache.UnclaimedSize("/registry/zoo/")
		gone, _ := b.cache.UnclaimedSize("/registry/a/")
		return lost == 1 && gone == 0
	})
	b.until(t, "ready", func() bool { return b.sawWrong.Load() && b.scrubber.ReadyError() == nil })
	if n := b.loads(t) - before; n != 0 {
		t.Errorf("the pods were loaded %d times", n)
	}
}

// TestWrongBytes changes the bytes of an object in memory. Only the slow comparison sees it.
func TestWrongBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	kv := b.mu.kvs[700]
	b.resource.Snapshot().Get(string(kv.Key[len(pods):])).Value[0] ^= 1
	b.run(t)
	b.wantRepair(t, string(kv.Key[len(pods):]), string(kv.Value), kv.ModRevision)
}

// TestEtcdWithTwoAnswers has an etcd that never shows the keys that it sends with values.
// The server must not stay away for ever.
func TestEtcdWithTwoAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
		if len(kvs) > 0 && kvs[0].Value == nil {
			return kvs[1:]
		}
		return kvs
	})
	b.run(t)
	b.scrubber.Observe("other", b.mu.revision, cache.Digest{})
	b.until(t, "not ready", func() bool { return b.scrubber.ReadyError() != nil })
	b.until(t, "served all the same", func() bool { return b.scrubber.ReadyError() == nil })
}

// TestValuesWithTwoAnswers has an etcd that never sends the same bytes of an object. Keys are
// right, so only the slow comparison sees it. The resource must be loaded three times, and
// then be left alone, though the difference is found again.
func TestValuesWithTwoAnswers(t *testing.T) {
	t.Parallel()
	answers := 0
	b := newBench(t, func(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
		if answers++; len(kvs) > 0 && kvs[0].Value != nil {
			kvs[0] = &mvccpb.KeyValue{Key: kvs[0].Key, Value: fmt.Append(nil, answers), ModRevision: kvs[0].ModRevision, Version: 1}
		}
		return kvs
	})
	before := b.loads(t)
	b.run(t)
	b.until(t, "not ready", func() bool { return b.scrubber.ReadyError() != nil })
	b.until(t, "served all the same", func() bool { return b.scrubber.ReadyError() == nil })
	seen := b.values.Load()
	b.until(t, "it is found again", func() bool { return b.values.Load() > seen+4 })
	if n := b.loads(t) - before; n != 3 || b.scrubber.ReadyError() != nil {
		t.Errorf("%d loads, want 3; %v", n, b.scrubber.ReadyError())
	}
}

// TestLoadThatFails has an etcd that does not send values. The server must not stay away for
// ever, nor ask for ever.
func TestLoadThatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.resource.Snapshot().Get(string(b.mu.kvs[1500].Key[len(pods):])).Revision++
	b.fails.Store(true)
	b.run(t)
	b.until(t, "not ready", func() bool { return b.scrubber.ReadyError() != nil })
	seen := b.values.Load()
	b.until(t, "served all the same", func() bool { return b.scrubber.ReadyError() == nil })
	gets := b.gets.Load() - b.values.Load()
	b.until(t, "the walk finds it again", func() bool { return b.values.Load() > seen+5 })
	if n := b.gets.Load() - b.values.Load() - gets; n > 0 || b.scrubber.ReadyError() != nil {
		t.Errorf("keys were asked for %d times more; %v", n, b.scrubber.ReadyError())
	}
}

// TestAlone has no other server that clients could go to. The server must stay ready, and the
// object be replaced.
func TestAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.alone.Store(true)
	kv := b.mu.kvs[1500]
	b.resource.Snapshot().Get(string(kv.Key[len(pods):])).Revision++
	b.run(t)
	b.until(t, "wrong", func() bool { return b.scrubber.CacheError() != nil })
	b.until(t, "right", func() bool { return b.scrubber.CacheError() == nil })
	if b.sawWrong.Load() || !b.resource.HoldsDigest() {
		t.Errorf("was not ready: %v", b.sawWrong.Load())
	}
}

// TestSmallResourcesShareATurn has many empty resources. Each must not take a pause of its own.
func TestSmallResourcesShareATurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for i := range 200 {
		b.cache.Register(cache.Spec{Prefix: fmt.Sprintf("/registry/empty/%d/", i)})
	}
	b.run(t)
	b.until(t, "all are compared", func() bool { return b.values.Load() > 400 })
}

// TestManyPeersThatDiffer lets many servers tell another digest. The keys are compared once.
func TestManyPeersThatDiffer(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.run(t)
	for _, peer := range []string{"one", "two", "three"} {
		b.scrubber.Observe(peer, b.mu.revision, cache.Digest{})
		b.until(t, "the keys are compared", func() bool { return b.gets.Load() >= 8 })
	}
	b.until(t, "a page was read", func() bool { return b.gets.Load() > 8 })
	if n := b.gets.Load(); n > 10 || b.sawWrong.Load() {
		t.Errorf("%d requests, and wrong: %v", n, b.sawWrong.Load())
	}
}

// TestEqualDigestAsksNothing observes digests that are equal, or of revisions that the cache
// cannot tell.
func TestEqualDigestAsksNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.run(t)
	ours, revision, err := b.cache.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b.scrubber.Observe("equal", revision, ours)
	b.scrubber.Observe("ahead", revision+1, cache.Digest{})
	b.scrubber.Observe("old", 1, cache.Digest{})
	b.until(t, "a page was read", func() bool { return b.gets.Load() > 0 })
	if n := b.gets.Load(); n > 2 || b.scrubber.ReadyError() != nil {
		t.Errorf("%d requests, %v", n, b.scrubber.ReadyError())
	}
}
