package storage_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/storage"
	"github.com/millrace/millrace/internal/store"
)

const (
	pathPrefix   = "/registry"
	storedPrefix = "sealed!"
)

// podCodec is the codec of the suite's kind.
var podCodec = sync.OnceValue(func() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
})

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

func podAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("got %T, not a pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
	}, nil
}

// setup says how a fixture differs from the usual one.
type setup struct {
	// etcd is the server's configuration. Nil means upstream's for tests.
	etcd *embed.Config
	// cache is the cache's configuration but for the logger.
	cache cache.Config
}

// fixture is a Store over an etcd of its own, made by the Decorator as in the
// real server.
type fixture struct {
	*storage.Store
	client      *kubernetes.Client
	cache       *cache.Cache
	sink        *loadObserver
	feed        *store.Feed
	transformer *switchableTransformer
	codec       runtime.Codec
	stopFeed    context.CancelFunc
	feedEnded   chan struct{}
	// firstRevision is the first revision that the cache showed.
	firstRevision int64
}

func newFixture(t testing.TB, s setup) *fixture {
	t.Helper()
	client := testserver.RunEtcd(t, s.etcd)
	t.Cleanup(func() { _ = client.Close() })
	return newFixtureOver(t, client, s.cache)
}

// newFixtureOver is another server, or one that starts again, over an etcd.
func newFixtureOver(t testing.TB, client *kubernetes.Client, cfg cache.Config) *fixture {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Logger = quiet
	f := &fixture{client: client, cache: cache.New(cfg), transformer: newSwitchableTransformer(), codec: podCodec()}
	f.sink = &loadObserver{Sink: f.cache, ended: make(chan int64, 1)}
	f.feed = store.NewFeed(store.FeedConfig{Client: client.Client, Prefix: pathPrefix + "/", Sink: f.sink, Logger: quiet})
	f.decorate(t)
	f.startFeed()
	t.Cleanup(f.endFeed)
	return f
}

func (f *fixture) decorate(t testing.TB) {
	t.Helper()
	compactor := etcd3.NewCompactor(f.client.Client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	backend := &storage.Backend{Client: f.client, Cache: f.cache, Consistent: cache.NewConsistent(f.cache, f.feed), Compactor: compactor}
	decorator := storage.Decorator{
		Backend: func(storagebackend.TransportConfig) (*storage.Backend, error) { return backend, nil },
	}
	config := storagebackend.NewDefaultConfig(pathPrefix, f.codec)
	config.Transformer = f.transformer
	made, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
		nil, newPod, newPodList, podAttributes, nil, nil)
	must(t, err)
	t.Cleanup(destroy)
	f.Store = made.(*storage.Store)
}

// startFeed runs the feed and returns when it has loaded and replayed the past.
func (f *fixture) startFeed() {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), feedContextKey{}, true))
	f.stopFeed, f.feedEnded = cancel, make(chan struct{})
	go func(joined chan struct{}) {
		defer close(joined)
		_ = f.feed.Run(ctx)
	}(f.feedEnded)
	progress := f.cache.Progress()
	if progress.Revision() == 0 {
		_ = progress.Wait(ctx, 1)
		f.firstRevision = progress.Revision()
	}
	_ = progress.Wait(ctx, <-f.sink.ended)
}

func (f *fixture) endFeed() {
	f.stopFeed()
	<-f.feedEnded
}

// reload makes the cache read everything anew, as a server does that starts or
// whose feed was compacted away.
func (f *fixture) reload() {
	f.endFeed()
	f.startFeed()
}

// recorder tells which lists went to etcd.
func (f *fixture) recorder() *storagetesting.KubernetesRecorder {
	return f.client.Kubernetes.(*storagetesting.KubernetesRecorder)
}

// increaseRV writes a key that does not belong to Kubernetes.
func (f *fixture) increaseRV(ctx context.Context, t *testing.T) int64 {
	resp, err := f.client.KV.Put(ctx, "increaseRV", "ok")
	must(t, err)
	return resp.Header.Revision
}

// compact compacts etcd as another API server would, and waits until ours has
// noticed it.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	rv, err := apistorage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	must(t, err)
	// The first call only learns the number that guards against double compaction.
	known, _, _, err := etcd3.Compact(ctx, f.client.Client, 0, int64(rv))
	if err != nil {
		_, _, _, err = etcd3.Compact(ctx, f.client.Client, known, int64(rv))
	}
	must(t, err)
	eventually(t, func() bool { return f.CompactRevision() == int64(rv) })
}

// compactAndReload leaves no event in the cache that etcd has compacted: ours
// keeps events for watches longer than etcd does.
func (f *fixture) compactAndReload(ctx context.Context, t *testing.T, resourceVersion string) {
	f.compact(ctx, t, resourceVersion)
	f.reload()
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, wait.ForeverTestTimeout, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatal("condition never came true")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// loadObserver is a sink that tells when a load has ended, with the newest revision that
// follows at once.
type loadObserver struct {
	store.Sink
	ended chan int64
}

func (l *loadObserver) BeginLoad() store.Loader {
	return &reportingLoader{Loader: l.Sink.BeginLoad(), ended: l.ended}
}

type reportingLoader struct {
	store.Loader
	newest int64
	ended  chan int64
}

func (l *reportingLoader) Expect(newest int64) {
	l.newest = newest
	l.Loader.Expect(newest)
}

func (l *reportingLoader) End(ctx context.Context, revision int64) {
	l.Loader.End(ctx, revision)
	l.ended <- max(l.newest, revision)
}

// switchableTransformer is a transformer that is exchanged while it is in use. The cache
// may have another one than Kubernetes' store.
type switchableTransformer struct {
	cache, etcd atomic.Pointer[value.Transformer]
}

func newSwitchableTransformer() *switchableTransformer {
	s := &switchableTransformer{}
	s.set(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false))
	return s
}

func (s *switchableTransformer) set(t value.Transformer) {
	s.cache.Store(&t)
	s.etcd.Store(&t)
}

// feedContextKey marks the context of the feed, which decrypts for the cache.
type feedContextKey struct{}

func (s *switchableTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if ctx.Value(feedContextKey{}) != nil {
		return (*s.cache.Load()).TransformFromStorage(ctx, data, dataCtx)
	}
	return (*s.etcd.Load()).TransformFromStorage(ctx, data, dataCtx)
}

func (s *switchableTransformer) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return (*s.etcd.Load()).TransformToStorage(ctx, data, dataCtx)
}

// modify makes a changed prefix transformer. original undoes it.
func (s *switchableTransformer) modify(modify storagetesting.PrefixTransformerModifier) (modified, original value.Transformer) {
	// The one in use cannot be copied: it counts its reads.
	return modify(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false)), *s.etcd.Load()
}

// etcdRekeyedStore is a store whose keys are exchanged for Kubernetes' store, but
// not for the cache.
type etcdRekeyedStore struct{ *fixture }

func (r etcdRekeyedStore) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	modified, original := r.transformer.modify(modify)
	r.transformer.etcd.Store(&modified)
	return func() { r.transformer.etcd.Store(&original) }
}

// rekeyedStore is a store whose keys are exchanged. The cache decrypts an object
// when it arrives, so new keys mean a new load, as after a restart with another
// encryption configuration.
type rekeyedStore struct{ *fixture }

func (r rekeyedStore) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	modified, original := r.transformer.modify(modify)
	r.transformer.set(modified)
	r.reload()
	return func() {
		r.transformer.set(original)
		r.reload()
	}
}

func (r rekeyedStore) CorruptTransformer() func() {
	original := *r.transformer.etcd.Load()
	r.transformer.set(corruptTransformer{original})
	r.reload()
	return func() {
		r.transformer.set(original)
		r.reload()
	}
}

type corruptTransformer struct{ value.Transformer }

func (corruptTransformer) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, fmt.Errorf("bits flipped")
}

// rekeyedCaughtUpStore is both.
type rekeyedCaughtUpStore struct{ rekeyedStore }

func (r rekeyedCaughtUpStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return caughtUpStore{r.fixture}.Create(ctx, key, obj, out, ttl)
}

// caughtUpStore is a store whose writes return when the cache holds them, for tests
// which read without naming a resource version.
type caughtUpStore struct{ *fixture }

func (c caughtUpStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := c.fixture.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	rv, err := c.Versioner().ObjectResourceVersion(out)
	if err != nil {
		return err
	}
	return c.cache.Progress().Wait(ctx, int64(rv))
}

var (
	_ storagetesting.InterfaceWithPrefixTransformer  = rekeyedStore{}
	_ storagetesting.InterfaceWithPrefixTransformer  = etcdRekeyedStore{}
	_ storagetesting.InterfaceWithCorruptTransformer = rekeyedStore{}
)

// alwaysLimitedStore is a store that takes a list at resource version 0 for one of the
// newest state. From the cache such a list is whole, whatever its limit.
type alwaysLimitedStore struct{ *fixture }

func (l alwaysLimitedStore) GetList(ctx context.Context, key string, opts apistorage.ListOptions, list runtime.Object) error {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	return l.fixture.GetList(ctx, key, opts, list)
}
