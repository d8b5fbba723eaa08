package read_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// cacheRevision is the revision of the cache.
const cacheRevision = 100

// fakeEtcd answers with its revision.
type fakeEtcd struct {
	at  int64
	err error
	// pause is how long an answer takes.
	pause time.Duration
	// onRequest is called when the feed is asked for its progress. Nil does nothing.
	onRequest func()
}

func (e *fakeEtcd) Revision(context.Context) (int64, error) {
	<-time.After(e.pause)
	return e.at, e.err
}

func (e *fakeEtcd) RequestProgress(context.Context) error {
	if e.onRequest != nil {
		e.onRequest()
	}
	return nil
}

// testTier is a read tier over config maps, in front of a handler that answers with
// passedOnStatus.
type testTier struct {
	cache    *cache.Cache
	resource *cache.Resource
	etcd     *fakeEtcd
	registry metrics.KubeRegistry
	// logged has the tier's log lines. clock is the tier's clock.
	logged  bytes.Buffer
	clock   *clocktesting.FakePassiveClock
	config  read.Config
	tier    *read.Tier
	route   *read.Route
	handler http.Handler
}

// passedOnStatus is the status with which the handler answers to which the tier
// passes on.
const passedOnStatus = http.StatusTeapot

// uidOf returns a UID for the object of a key. As real ones, it looks random.
func uidOf(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

type configChange func(*read.RouteConfig)

func newTestTier(t testing.TB, changes ...configChange) *testTier {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	env := &testTier{cache: cache.New(cache.Config{}), etcd: &fakeEtcd{at: cacheRevision}, registry: metrics.NewKubeRegistry(), clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	env.resource = env.cache.Register(cache.Spec{Prefix: "/registry/configmaps/", Describe: func(e *entry.Entry) error {
		e.Altered = strings.HasSuffix(e.Key, "/irregular")
		e.Attributes = entry.NewAttributes(labels.Set{"name": e.Name()}, nil)
		e.UIDHash = entry.HashShardKey(uidOf(e.Key))
		return nil
	}})
	cfg := read.RouteConfig{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Namespaced: true, Gets: true, Lists: true, Serializer: serializer.NewCodecFactory(scheme),
		Objects: &fakeSource{tier: env, consistent: cache.NewConsistent(env.cache, env.etcd)}, Convertor: scheme,
		Table:  rest.NewDefaultTableConvertor(corev1.Resource("configmaps")),
		Shared: &read.SharedConfig{Budget: encode.NewBudget(1 << 20), Compress: true},
	}
	for _, c := range changes {
		c(&cfg)
	}
	route, err := read.NewRoute(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := read.NewMetrics(env.registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	env.config = read.Config{Metrics: counters, Logger: slog.New(slog.NewTextHandler(&env.logged, nil)), Clock: env.clock, DrainTime: time.Second}
	env.route = route
	env.serveBefore(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(passedOnStatus) }))
	return env
}

// serveBefore makes the tier, which passes requests on to a handler.
func (env *testTier) serveBefore(next http.Handler) {
	env.tier = read.NewTier(env.config)
	env.tier.SetRoutes([]*read.Route{env.route})
	env.handler = env.tier.Wrap(next)
}

// serveBeforeOther makes the tier of a replica, in front of another server.
func (env *testTier) serveBeforeOther(other http.Handler) {
	env.config.PassedOnElsewhere = true
	env.serveBefore(other)
}

// fakeSource finds config maps as Kubernetes' storage would, except for its errors.
type fakeSource struct {
	tier       *testTier
	consistent *cache.Consistent
}

func (s *fakeSource) CoversPredicate(*storage.SelectionPredicate) bool { return true }

func (s *fakeSource) Prefix() string            { return "/configmaps" }
func (s *fakeSource) NewList() runtime.Object   { return &corev1.ConfigMapList{} }
func (s *fakeSource) Resource() *cache.Resource { return s.tier.resource }
func (s *fakeSource) Progress() *cache.Progress { return s.tier.cache.Progress() }

func (s *fakeSource) Notify(revision int64, reached func()) (cancel func()) {
	return s.consistent.Notify(revision, reached)
}

func (s *fakeSource) Begin(_ context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error) {
	prefix := strings.TrimPrefix(strings.TrimPrefix(key, s.Prefix()), "/")
	if opts.Recursive && prefix != "" {
		prefix += "/"
	}
	begin := cache.StartPoint{Scope: cache.Scope{Prefix: prefix, Single: !opts.Recursive}}
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		var err error
		begin.After, err = strconv.ParseInt(opts.ResourceVersion, 10, 64)
		return begin, err
	}
	snapshot := s.tier.resource.Snapshot()
	begin.Initial, begin.After = &snapshot, snapshot.Revision
	return begin, nil
}

func (s *fakeSource) Bookmark(revision int64, initialEventsEnd bool) (runtime.Object, error) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}
	if initialEventsEnd {
		obj.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return obj, nil
}

func (s *fakeSource) Expired(after int64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", after))
}

func (s *fakeSource) Ahead(_ context.Context, _ int64, named string) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("resource version %s is ahead", named))
}

func (s *fakeSource) fresh(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		defer usage.AddWait(ctx, time.Now())
		if _, err := s.consistent.Wait(ctx); err != nil {
			if stale := cache.StalenessFrom(ctx); stale != nil {
				stale.Age = 2100 * time.Millisecond
				return nil
			}
			return fmt.Errorf("not consistent: %w", err)
		}
		return nil
	}
	if s.tier.cache.Ready() != nil {
		return apierrors.NewTooManyRequests("loading", 1)
	}
	if rv, err := strconv.Atoi(resourceVersion); err != nil || rv > cacheRevision {
		return fmt.Errorf("version: %w", cache.ErrExpired)
	}
	return nil
}

func (s *fakeSource) Find(ctx context.Context, key, resourceVersion string) (encode.EntryRun, error) {
	if err := s.fresh(ctx, resourceVersion); err != nil {
		return encode.EntryRun{}, err
	}
	run, ok := s.tier.resource.Snapshot().Find(strings.TrimPrefix(key, "/configmaps/"))
	if !ok {
		return run, storage.NewKeyNotFoundError(key, 0)
	}
	return run, nil
}

func (s *fakeSource) Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error) {
	if err := s.fresh(ctx, opts.ResourceVersion); err != nil {
		return cache.Page{}, err
	}
	shard, err := entry.NewShard(opts.Predicate.ShardSelector)
	if err != nil {
		return cache.Page{}, err
	}
	q := &cache.Query{
		Prefix: strings.TrimPrefix(strings.TrimPrefix(key, "/configmaps"), "/"), Single: !opts.Recursive,
		Labels: opts.Predicate.Label, Fields: opts.Predicate.Field, Shard: shard, Limit: int(opts.Predicate.Limit),
	}
	if q.Prefix != "" && !q.Single {
		q.Prefix += "/"
	}
	snapshot := s.tier.resource.Snapshot()
	return cache.Page{Result: snapshot.Select(q), Revision: snapshot.Revision}, nil
}

func (s *fakeSource) EncodeForStorage(*entry.Entry) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (s *fakeSource) Decode(e *entry.Entry) (runtime.Object, error) {
	obj := &corev1.ConfigMap{}
	if err := e.Read(obj.Unmarshal); err != nil {
		return nil, err
	}
	obj.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	return obj, nil
}

// load puts objects into the cache. Keys are "namespace/name".
func (env *testTier) load(t testing.TB, keys ...string) {
	t.Helper()
	var kvs []feed.Object
	for i, key := range keys {
		ns, name, _ := strings.Cut(key, "/")
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"text": textOf(name)}}
		value, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if name == "broken" {
			value = []byte{0xff}
		}
		kvs = append(kvs, feed.Object{Key: []byte("/registry/configmaps/" + key), Value: value, Revision: int64(i + 1)})
	}
	loader := env.cache.BeginLoad()
	loader.Add(t.Context(), kvs)
	loader.End(t.Context(), cacheRevision)
}

func textOf(name string) string {
	if name == "large" {
		return strings.Repeat("large ", 40<<10)
	}
	return name
}

// send sends a GET as the handler chain would, with the request's information.
func (env *testTier) send(t testing.TB, method, target string, header http.Header, wraps ...func(context.Context) context.Context) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, target, nil)
	for name, values := range header {
		req.Header[name] = values
	}
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(req)
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithRequestInfo(req.Context(), info)
	for _, wrap := range wraps {
		ctx = wrap(ctx)
	}
	w := httptest.NewRecorder()
	env.handler.ServeHTTP(w, req.WithContext(ctx))
	return w
}

// reasons is how often requests were passed on, by reason, and served, by verb.
func (env *testTier) reasons(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := env.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if name := family.GetName(); name != "millrace_read_requests_total" && name != "millrace_read_passed_on_total" {
			continue
		}
		for _, m := range family.Metric {
			found[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
	}
	return found
}
