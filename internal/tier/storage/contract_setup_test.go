package storage_test

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

const (
	pathPrefix   = "/registry"
	storedPrefix = "sealed!"
)

// podCodec returns the codec of the kind that the suite uses.
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

// setup configures a fixture. The zero value is the usual one.
type setup struct {
	// etcd is the server's configuration. Nil means Kubernetes' own for tests.
	etcd *embed.Config
	// cache is the cache's configuration, whose logger is replaced.
	cache cache.Config
}

// fixture is a Store over an etcd of its own, made by a Decorator as in the server.
type fixture struct {
	*storage.Store
	client      *kubernetes.Client
	cache       *cache.Cache
	sink        *loadObserver
	feed        *etcdfeed.Feed
	transformer *switchableTransformer
	codec       runtime.Codec
	stopFeed    context.CancelFunc
	feedEnded   chan struct{}
	// firstRevision is the revision of the cache when it first answered.
	firstRevision int64
}

func newFixture(t testing.TB, s setup) *fixture {
	t.Helper()
	client := testserver.RunEtcd(t, s.etcd)
	t.Cleanup(func() { _ = client.Close() })
	return newFixtureOver(t, client, s.cache)
}

// newFixtureOver makes a fixture over an existing etcd: another server, or the same one
// after a restart.
func newFixtureOver(t testing.TB, client *kubernetes.Client, cfg cache.Config) *fixture {
	t.Helper()
	discard := slog.New(slog.DiscardHandler)
	cfg.Logger = discard
	f := &fixture{client: client, cache: cache.New(cfg), transformer: newSwitchableTransformer(), codec: podCodec()}
	f.sink = &loadObserver{Sink: f.cache, ended: make(chan int64, 1)}
	f.feed = etcdfeed.NewFeed(etcdfeed.FeedConfig{Client: client.Client, Prefix: pathPrefix + "/", Sink: f.sink, Logger: discard})
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
		Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil },
		Usable:  func(schema.GroupResource) func(string, runtime.Object) error { return usablePod },
	}
	config := storagebackend.NewDefaultConfig(pathPrefix, f.codec)
	config.Transformer = f.transformer
	decorated, destroy, err := decorator.Decorate(config.ForResource(schema.GroupResource{Resource: "pods"}), "/pods/",
		nil, newPod, newPodList, podAttributes, nil, nil)
	must(t, err)
	t.Cleanup(destroy)
	f.Store = decorated.(*storage.Store)
}

// unusablePod is the name of the pods that the server's own informers must not see.
const unusablePod = "unusable"

func usablePod(key string, obj runtime.Object) error {
	if pod, ok := obj.(*example.Pod); ok && pod.Name == unusablePod {
		return fmt.Errorf("%s is not usable", key)
	}
	return nil
}

// startFeed runs the feed, and returns when it has loaded etcd and replayed its past.
func (f *fixture) startFeed() {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), feedContextKey{}, true))
	f.stopFeed, f.feedEnded = cancel, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
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

// reload makes the cache load etcd again. A server does so when it starts, and when etcd
// has compacted the revision from which its feed would resume.
func (f *fixture) reload() {
	f.endFeed()
	f.startFeed()
}

// recorder returns the recorder of the lists that went to etcd.
func (f *fixture) recorder() *storagetesting.KubernetesRecorder {
	return f.client.Kubernetes.(*storagetesting.KubernetesRecorder)
}

// increaseRV writes a key outside of Kubernetes' prefix, and returns the new revision.
func (f *fixture) increaseRV(ctx context.Context, t *testing.T) int64 {
	resp, err := f.client.KV.Put(ctx, "increaseRV", "ok")
	must(t, err)
	return resp.Header.Revision
}

// compact compacts etcd as another API server would, and waits until the fixture's
// compactor has noticed.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	rv, err := apistorage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	must(t, err)
	// The first call may only read the version of the key that guards against two
	// compactions at once.
	version, _, _, err := etcd3.Compact(ctx, f.client.Client, 0, int64(rv))
	if err != nil {
		_, _, _, err = etcd3.Compact(ctx, f.client.Client, version, int64(rv))
	}
	must(t, err)
	eventually(t, func() bool { return f.CompactRevision() == int64(rv) })
}

// compactAndReload compacts etcd, and drops the same events from the cache, which would
// keep them longer for watches.
func (f *fixture) compactAndReload(ctx context.Context, t *testing.T, resourceVersion string) {
	f.compact(ctx, t, resourceVersion)
	f.reload()
}

// eventually polls a condition that cannot be waited for.
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

// loadObserver is a sink that reports the end of each load, with the newest revision of
// the events that follow it at once.
type loadObserver struct {
	feed.Sink
	ended chan int64
}

func (l *loadObserver) BeginLoad() feed.Loader {
	return &reportingLoader{Loader: l.Sink.BeginLoad(), ended: l.ended}
}

type reportingLoader struct {
	feed.Loader
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

// switchableTransformer delegates to a transformer that a test exchanges while it is in
// use. The cache and Kubernetes' store may have different ones.
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

// feedContextKey marks the context of the feed, to tell the cache's decryption apart.
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

// modify returns a changed prefix transformer, and the original, which undoes the change.
func (s *switchableTransformer) modify(modify storagetesting.PrefixTransformerModifier) (modified, original value.Transformer) {
	// A new one is changed: the one in use counts its reads and cannot be copied.
	return modify(storagetesting.NewPrefixTransformer([]byte(storedPrefix), false)), *s.etcd.Load()
}

// etcdRekeyedStore lets the suite exchange the encryption keys of Kubernetes' store. The
// cache keeps the old keys.
type etcdRekeyedStore struct{ *fixture }

func (s etcdRekeyedStore) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	modified, original := s.transformer.modify(modify)
	s.transformer.etcd.Store(&modified)
	return func() { s.transformer.etcd.Store(&original) }
}

// rekeyedStore lets the suite exchange the encryption keys of Kubernetes' store and of the
// cache. The cache decrypts an object when it arrives, so new keys need a new load, as after
// a restart with another encryption configuration.
type rekeyedStore struct{ *fixture }

func (s rekeyedStore) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	modified, original := s.transformer.modify(modify)
	s.transformer.set(modified)
	s.reload()
	return func() {
		s.transformer.set(original)
		s.reload()
	}
}

func (s rekeyedStore) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	original := *s.transformer.etcd.Load()
	s.transformer.set(modify(original))
	s.reload()
	return func() {
		s.transformer.set(original)
		s.reload()
	}
}

// setFailing makes Kubernetes' store fail to decrypt objects, or lets it decrypt them
// again. The cache is not concerned.
func (s *switchableTransformer) setFailing(fail bool) {
	failing, working := value.Transformer(failingTransformer{}), *s.cache.Load()
	if fail {
		s.etcd.Store(&failing)
	} else {
		s.etcd.Store(&working)
	}
}

var errDecrypt = errors.New("bits flipped")

type failingTransformer struct{ value.Transformer }

func (failingTransformer) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errDecrypt
}

// rekeyedCaughtUpStore is a rekeyedStore and a caughtUpStore.
type rekeyedCaughtUpStore struct{ rekeyedStore }

func (s rekeyedCaughtUpStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return caughtUpStore{s.fixture}.Create(ctx, key, obj, out, ttl)
}

// caughtUpStore is a store whose creations return when the cache holds them. It is for
// tests that read without a resource version.
type caughtUpStore struct{ *fixture }

func (s caughtUpStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.fixture.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	rv, err := s.Versioner().ObjectResourceVersion(out)
	if err != nil {
		return err
	}
	return s.cache.Progress().Wait(ctx, int64(rv))
}

var (
	_ storagetesting.InterfaceWithPrefixTransformer   = rekeyedStore{}
	_ storagetesting.InterfaceWithPrefixTransformer   = etcdRekeyedStore{}
	_ storagetesting.InterfaceWithTransformerOverride = rekeyedStore{}
)

// alwaysLimitedStore is a store that answers a list at resource version 0 as one of the
// newest state. Otherwise such a list is whole, whatever its limit.
type alwaysLimitedStore struct{ *fixture }

func (s alwaysLimitedStore) GetList(ctx context.Context, key string, opts apistorage.ListOptions, list runtime.Object) error {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	return s.fixture.GetList(ctx, key, opts, list)
}
