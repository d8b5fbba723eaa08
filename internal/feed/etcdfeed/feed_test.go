package etcdfeed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

// mirror is a sink that keeps all objects and records the feed's calls.
type mirror struct {
	mu struct {
		sync.Mutex
		objects map[string]string
		pages   []int
		loads   int
		// revisions are the revisions of the loads. expected has the arguments of Expect.
		revisions, expected []int64
		applied             []int64
		progress            int64
	}
}

func (m *mirror) BeginLoad() feed.Loader {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.pages = nil
	return &mirrorLoad{mirror: m, objects: map[string]string{}}
}

type mirrorLoad struct {
	mirror  *mirror
	objects map[string]string
}

func (l *mirrorLoad) Expect(newest int64) {
	l.mirror.mu.Lock()
	defer l.mirror.mu.Unlock()
	l.mirror.mu.expected = append(l.mirror.mu.expected, newest)
}

func (l *mirrorLoad) Unchanged(string, int64) {}

func (l *mirrorLoad) Add(_ context.Context, page []feed.Object) {
	for _, kv := range page {
		l.objects[string(kv.Key)] = string(kv.Value)
	}
	l.mirror.mu.Lock()
	defer l.mirror.mu.Unlock()
	l.mirror.mu.pages = append(l.mirror.mu.pages, len(page))
}

func (l *mirrorLoad) End(_ context.Context, revision int64) {
	l.mirror.mu.Lock()
	defer l.mirror.mu.Unlock()
	l.mirror.mu.objects, l.mirror.mu.progress = l.objects, revision
	l.mirror.mu.loads++
	l.mirror.mu.revisions = append(l.mirror.mu.revisions, revision)
}

func (m *mirror) Received(time.Time) {}

func (m *mirror) Apply(_ context.Context, events []feed.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		if e.Deleted {
			delete(m.mu.objects, string(e.Key))
		} else {
			m.mu.objects[string(e.Key)] = string(e.Value)
		}
		m.mu.applied = append(m.mu.applied, e.Revision)
		m.mu.progress = e.Revision
	}
}

func (m *mirror) Progressed(revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.progress = max(m.mu.progress, revision)
}

// reached returns a condition: the mirror has all events up to a revision.
func (m *mirror) reached(revision int64) func() bool {
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.mu.progress >= revision
	}
}

func (m *mirror) loads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.loads
}

func (m *mirror) wantObjects(t *testing.T, want map[string]string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.mu.objects, want) {
		t.Fatalf("sink holds %v, want %v", m.mu.objects, want)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, wait.ForeverTestTimeout, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("timed out waiting for: %s", what)
	}
}

// follow runs a feed until the test ends or stop is called.
func follow(t *testing.T, client *clientv3.Client, sink feed.Sink) (f *etcdfeed.Feed, stop func()) {
	t.Helper()
	return followWith(t, etcdfeed.FeedConfig{Client: client, Sink: sink})
}

func followWith(t *testing.T, cfg etcdfeed.FeedConfig) (f *etcdfeed.Feed, stop func()) {
	t.Helper()
	cfg.Prefix, cfg.Logger = "/registry/", slog.New(slog.NewTextHandler(io.Discard, nil))
	f = etcdfeed.NewFeed(cfg)
	if f.Healthy() == nil {
		t.Error("a feed that does not run is healthy")
	}
	return f, run(t, f)
}

// run runs a feed until the test ends or stop is called.
func run(t *testing.T, f *etcdfeed.Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v, want the context's error", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func put(t *testing.T, client clientv3.KV, key, value string) int64 {
	t.Helper()
	resp, err := client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func TestFeedLoadsPages(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	want := map[string]string{}
	var ops []clientv3.Op
	for i := range 450 {
		key := fmt.Sprintf("/registry/pods/%03d", i)
		want[key] = fmt.Sprint(i)
		if ops = append(ops, clientv3.OpPut(key, fmt.Sprint(i))); len(ops) == 90 {
			if _, err := e.Client().Client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	put(t, e.Client().Client, "/registry0", "behind the prefix")
	revision := put(t, e.Client().Client, "/other/a", "outside")

	sink := &mirror{}
	f, _ := followWith(t, etcdfeed.FeedConfig{Client: e.Client().Client, Sink: sink, HistoryRevisions: -1})
	eventually(t, "load", sink.reached(revision))
	sink.wantObjects(t, want)
	if got := sink.mu.pages; len(got) < 2 || got[0] != 200 {
		t.Errorf("pages have %v objects, want a first of 200 and more", got)
	}
	eventually(t, "feed is healthy", func() bool { return f.Healthy() == nil })
	if got, err := f.Revision(t.Context()); err != nil || got != revision {
		t.Errorf("Revision() = %d, %v, want %d", got, err, revision)
	}
}

// countingKV counts the keys that etcd visits for ranges.
type countingKV struct {
	clientv3.KV
	ranges, keys atomic.Int64
}

func (c *countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := c.KV.Get(ctx, key, opts...)
	if err == nil {
		c.ranges.Add(1)
		c.keys.Add(resp.Count)
	}
	return resp, err
}

// TestFeedCounts loads keys of many shapes and densities in pages.
func TestFeedCounts(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	value := strings.Repeat("x", 100<<10) // 40 of them are a page
	want := map[string]string{}
	add := func(key, value string) {
		want["/registry/"+key] = value
		put(t, e.Client().Client, "/registry/"+key, value)
	}
	for i := range 60 {
		add(fmt.Sprintf("apiextensions.k8s.io/%02d", i), "")
	}
	long := strings.Repeat("long", 50)
	for i := range 500 {
		add(fmt.Sprintf("pods/default/name-%d", i), value)
	}
	for i := range 400 {
		add(fmt.Sprintf("pods/%s/%d", long, i), value)
	}
	for _, key := range []string{"z", "z\x00", "z\xff\xff", "\x00", "\xff\xff\xff"} {
		add(key, key)
	}
	client := clientv3.NewCtxClient(t.Context())
	kv := &countingKV{KV: e.Client().Client.KV}
	client.KV, client.Watcher = kv, e.Client().Client.Watcher

	sink := &mirror{}
	followWith(t, etcdfeed.FeedConfig{Client: client, Sink: sink, HistoryRevisions: -1})
	eventually(t, "load", func() bool { return sink.loads() == 1 })
	sink.wantObjects(t, want)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for _, n := range sink.mu.pages[1:] {
		if n > 250 {
			t.Errorf("a page has %d objects of %d bytes", n, len(value))
		}
	}
	counted, ranges, n := kv.keys.Load(), kv.ranges.Load(), int64(len(want))
	t.Logf("etcd counted %d keys in %d ranges to load %d in pages of %v", counted, ranges, n, sink.mu.pages)
	if counted > 5*n || ranges > 60 {
		t.Errorf("etcd counted %d keys in %d ranges to load %d", counted, ranges, n)
	}
}

// wire is a client's connection to etcd's socket that a test can cut, as a network would.
type wire struct {
	client  *clientv3.Client
	streams etcdfeed.WatchStreams
	mu      struct {
		sync.Mutex
		cut   bool
		conns []net.Conn
	}
}

func newWire(t *testing.T, e *etcdserver.Etcd) *wire {
	t.Helper()
	w := &wire{}
	retry := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		MinConnectTimeout: 10 * time.Second,
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(w.dial), grpc.WithConnectParams(retry), w.streams.DialOption()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	w.client = client
	return w
}

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.cut {
		return nil, errors.New("wire is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix:"))
	if err == nil {
		w.mu.conns = append(w.mu.conns, conn)
	}
	return conn, err
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.cut = true
	for _, conn := range w.mu.conns {
		_ = conn.Close()
	}
	w.mu.conns = nil
}

func (w *wire) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.cut = false
}

func TestFeedResumesAfterRestart(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t)
	e := etcdtest.Open(t, cfg)
	loaded := put(t, e.Client().Client, "/registry/a", "1")
	sink := &mirror{}
	w := newWire(t, e)
	follow(t, w.client, sink)
	eventually(t, "load", sink.reached(loaded))
	w.cut()
	e.Close()

	e = etcdtest.Open(t, cfg)
	t.Cleanup(e.Close)
	w.restore()
	revision := put(t, e.Client().Client, "/registry/b", "1")
	eventually(t, "event after the restart", sink.reached(revision))
	sink.wantObjects(t, map[string]string{"/registry/a": "1", "/registry/b": "1"})
	if got := sink.loads(); got != 1 {
		t.Errorf("%d loads, want 1: the history was there", got)
	}
}
