package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

const (
	podPrefix   = "/registry/pods/"
	testTimeout = 30 * time.Second
)

// podCache is a cache of pods without etcd: tests change it directly.
type podCache struct {
	*testing.T
	cache *cache.Cache
	store *storage.Store
}

func newPodCache(t *testing.T) *podCache {
	c := cache.New(cache.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	p := &podCache{T: t, cache: c}
	r := c.Register(cache.Spec{Prefix: podPrefix, Describe: func(e *entry.Entry) error {
		_, err := p.store.Decode(e)
		return err
	}})
	p.store = storage.New(storage.Config{
		Cache: c, Resource: r, Codec: legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion),
		ResourcePrefix: "/pods", PathPrefix: "/registry", New: func() runtime.Object { return &api.Pod{} },
	})
	return p
}

// podKeyValue is a pod as etcd stores it. The node's name stands for its content.
func (p *podCache) podKeyValue(key, node string, revision int64) feed.Object {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		p.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"node": node}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	value, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), pod)
	if err != nil {
		p.Fatal(err)
	}
	return feed.Object{Key: []byte(podPrefix + key), Value: value, Revision: revision}
}

// load replaces all pods.
func (p *podCache) load(revision int64, pods ...feed.Object) {
	loader := p.cache.BeginLoad()
	loader.Add(p.Context(), pods)
	loader.End(p.Context(), revision)
}

func (p *podCache) put(key, node string, revision int64) {
	p.cache.Apply(p.Context(), []feed.Object{p.podKeyValue(key, node, revision)})
}

func (p *podCache) damage(key string, revision int64) {
	kv := feed.Object{Key: []byte(podPrefix + key), Value: []byte("?"), Revision: revision}
	p.cache.Apply(p.Context(), []feed.Object{kv})
}

func (p *podCache) remove(key string, revision int64) {
	p.cache.Apply(p.Context(), []feed.Object{{Key: []byte(podPrefix + key), Revision: revision, Deleted: true}})
}

func (p *podCache) informer() toolscache.SharedIndexInformer {
	return newStoredInformer(func() *storage.Store { return p.store }, objectReader{empty: func() object { return &corev1.Pod{} }})
}

// runInformer starts an informer. stop ends it and waits.
func runInformer(t *testing.T, i toolscache.SharedIndexInformer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		if !t.Failed() { // otherwise a handler may block in a send to the test
			stop()
		}
	})
	return stop
}

// recordingHandler is an event handler that sends a description of each call. The channel
// is unbuffered in most tests, so the test decides when the handler goes on.
type recordingHandler chan string

func (r recordingHandler) OnAdd(obj any, initial bool) {
	if initial {
		r <- "initial " + describe(obj)
		return
	}
	r <- "add " + describe(obj)
}
func (r recordingHandler) OnUpdate(old, now any) {
	r <- "update " + describe(old) + " " + describe(now)
}
func (r recordingHandler) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		r <- "missed delete " + unknown.Key + " " + describe(unknown.Obj)
		return
	}
	r <- "delete " + describe(obj)
}

func describe(obj any) string {
	pod := obj.(*corev1.Pod)
	return fmt.Sprintf("%s/%s@%s on %s", pod.Namespace, pod.Name, pod.ResourceVersion, pod.Spec.NodeName)
}

func (r recordingHandler) want(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-r:
			if got != w {
				t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(testTimeout):
			t.Fatalf("no %q within %v", w, testTimeout)
		}
	}
}

// wantInAnyOrder is want for events without an order.
func (r recordingHandler) wantInAnyOrder(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		select {
		case event := <-r:
			got = append(got, event)
		case <-time.After(testTimeout):
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func handle(t *testing.T, i toolscache.SharedIndexInformer, handler toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	t.Helper()
	registration, err := i.AddEventHandler(handler)
	if err != nil {
		t.Fatal(err)
	}
	return registration
}

func wantDone(t *testing.T, checker toolscache.DoneChecker) {
	t.Helper()
	select {
	case <-checker.Done():
	case <-time.After(testTimeout):
		t.Fatalf("%s is not done within %v", checker.Name(), testTimeout)
	}
}

func TestHandlersGetAllPodsThenChanges(t *testing.T) {
	pods, events := newPodCache(t), make(recordingHandler)
	i := pods.informer()
	registration := handle(t, i, events)
	runInformer(t, i)
	if i.HasSynced() || registration.HasSynced() {
		t.Error("synced before the cache is loaded")
	}
	pods.load(5, pods.podKeyValue("a/1", "x", 3), pods.podKeyValue("b/1", "x", 5))
	events.want(t, "initial a/1@3 on x")
	if registration.HasSynced() {
		t.Error("handler synced before all pods were delivered")
	}
	events.want(t, "initial b/1@5 on x")
	wantDone(t, i.HasSyncedChecker())
	wantDone(t, registration.HasSyncedChecker())
	pods.put("a/2", "", 6)
	pods.put("a/2", "y", 7)
	pods.remove("b/1", 8)
	events.want(t, "add a/2@6 on ", "update a/2@6 on  a/2@7 on y", "delete b/1@8 on x")
	late := make(recordingHandler)
	handle(t, i, late)
	late.want(t, "initial a/1@3 on x", "initial a/2@7 on y")
	pods.remove("a/1", 9)
	late.want(t, "delete a/1@9 on x")
	events.want(t, "delete a/1@9 on x")
	if rv := i.LastSyncResourceVersion(); rv != "9" {
		t.Errorf("LastSyncResourceVersion is %s, want 9", rv)
	}
}

func TestHandlersCatchUpAfterLostEvents(t *testing.T) {
	p, events := newPodCache(t), make(recordingHandler)
	p.load(5, p.podKeyValue("a/changes", "x", 1), p.podKeyValue("a/goes", "x", 2), p.podKeyValue("a/stays", "x", 3), p.podKeyValue("a/went", "x", 4))
	i := p.informer()
	registration := handle(t, i, events)
	runInformer(t, i)
	events.want(t, "initial a/changes@1 on x", "initial a/goes@2 on x", "initial a/stays@3 on x", "initial a/went@4 on x")
	wantDone(t, registration.HasSyncedChecker())
	// The handler blocks until the test receives below. By then it has read only the
	// first two of these events, and the log has dropped the others.
	p.cache.Apply(t.Context(), []feed.Object{
		p.podKeyValue("a/short", "x", 6),
		{Key: []byte(podPrefix + "a/went"), Revision: 7, Deleted: true},
	})
	events.want(t, "add a/short@6 on x")
	p.load(20, p.podKeyValue("a/changes", "y", 11), p.podKeyValue("a/new", "y", 12), p.podKeyValue("a/stays", "x", 3))
	events.want(t, "delete a/went@7 on x", "update a/changes@1 on x a/changes@11 on y")
	// The log drops the next one too, while the handler catches up.
	p.load(30, p.podKeyValue("a/changes", "y", 11), p.podKeyValue("a/new", "z", 22), p.podKeyValue("a/stays", "x", 3))
	events.want(t, "add a/new@12 on y")
	events.wantInAnyOrder(t, "missed delete a/goes a/goes@2 on x", "missed delete a/short a/short@6 on x")
	events.want(t, "update a/new@12 on y a/new@22 on z")
	p.put("a/stays", "z", 31)
	events.want(t, "update a/stays@3 on x a/stays@31 on z")
}

func TestUnreadablePodsDoNotExist(t *testing.T) {
	p, events := newPodCache(t), make(recordingHandler)
	p.load(2, p.podKeyValue("a/1", "x", 1), feed.Object{Key: []byte(podPrefix + "a/2"), Value: []byte("?"), Revision: 2})
	i := p.informer()
	handle(t, i, events)
	runInformer(t, i)
	events.want(t, "initial a/1@1 on x")
	p.damage("a/1", 3)
	events.want(t, "delete a/1@3 on x")
	if keys, pods := i.GetStore().ListKeys(), i.GetStore().List(); len(keys) != 0 || len(pods) != 0 {
		t.Errorf("lists %v and %v, want nothing", keys, pods)
	}
	if _, exists, err := i.GetStore().GetByKey("a/1"); exists || err != nil {
		t.Errorf("unreadable pod: exists %v, error %v", exists, err)
	}
	p.put("a/1", "y", 4)
	p.remove("a/2", 5)
	p.put("a/3", "y", 6)
	events.want(t, "add a/1@4 on y", "add a/3@6 on y")
}

func TestInformerStops(t *testing.T) {
	p, removed, kept := newPodCache(t), make(recordingHandler, 10), make(recordingHandler)
	p.load(1, p.podKeyValue("a/1", "x", 1))
	i := p.informer()
	registration := handle(t, i, removed)
	handle(t, i, kept)
	stop := runInformer(t, i)
	removed.want(t, "initial a/1@1 on x")
	kept.want(t, "initial a/1@1 on x")
	for range 2 {
		if err := i.RemoveEventHandler(registration); err != nil {
			t.Fatal(err)
		}
	}
	p.put("a/2", "x", 2)
	kept.want(t, "add a/2@2 on x")
	if err := i.SetTransform(nil); err == nil {
		t.Error("transform set on a running informer")
	}
	stop()
	select {
	case event := <-removed:
		t.Errorf("removed handler got %q", event)
	default:
	}
	if _, err := i.AddEventHandler(kept); err == nil || !i.IsStopped() {
		t.Errorf("stopped is %v; adding a handler then has error %v", i.IsStopped(), err)
	}
}

func TestListersReadTheCache(t *testing.T) {
	p := newPodCache(t)
	factory := informers.NewSharedInformerFactoryWithOptions(nil, 0, informers.WithTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).Annotations = map[string]string{"transformed": "yes"}
		return obj, nil
	}))
	if err := setStoredInformers(factory, func(schema.GroupResource) *storage.Store { return p.store }); err != nil {
		t.Fatal(err)
	}
	lister := factory.Core().V1().Pods().Lister()
	if pods, err := lister.List(labels.Everything()); len(pods) > 0 || err != nil {
		t.Fatalf("lists %v (%v) before the cache is loaded", pods, err)
	}
	p.load(4, p.podKeyValue("a/1", "x", 1), p.podKeyValue("a/2", "y", 2), p.podKeyValue("ab/1", "x", 3))
	pod, err := lister.Pods("a").Get("2")
	if err != nil || describe(pod) != "a/2@2 on y" || pod.Annotations["transformed"] != "yes" {
		t.Errorf("got %v (%v)", pod, err)
	}
	if _, err := lister.Pods("a").Get("3"); err == nil {
		t.Error("got a pod that does not exist")
	}
	wantPods(t, lister.Pods("a"), labels.Everything(), "a/1@1 on x", "a/2@2 on y")
	wantPods(t, lister.Pods("a"), labels.SelectorFromSet(labels.Set{"node": "x"}), "a/1@1 on x")
	wantPods(t, lister, labels.Everything(), "a/1@1 on x", "a/2@2 on y", "ab/1@3 on x")
	p.remove("a/1", 5)
	wantPods(t, lister, labels.Everything(), "a/2@2 on y", "ab/1@3 on x")
}

func wantPods(t *testing.T, lister interface {
	List(labels.Selector) ([]*corev1.Pod, error)
}, selector labels.Selector, want ...string) {
	t.Helper()
	pods, err := lister.List(selector)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range pods {
		got = append(got, describe(pod))
	}
	if !slices.Equal(got, want) {
		t.Errorf("lists %q, want %q", got, want)
	}
}

// TestIndexerEqualsKubernetes compares answers with those of client-go's indexer.
func TestIndexerEqualsKubernetes(t *testing.T) {
	p := newPodCache(t)
	indexers := toolscache.Indexers{"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }}
	i := p.informer()
	if err := i.AddIndexers(indexers); err != nil {
		t.Fatal(err)
	}
	if err := i.AddIndexers(indexers); err == nil {
		t.Error("an index was added twice")
	}
	own := i.GetIndexer()
	stock := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, own.GetIndexers())
	var stored []feed.Object
	for n := range int64(200) {
		stored = append(stored, p.podKeyValue(fmt.Sprintf("ns%d/pod%03d", n%12, n), "node"+strconv.Itoa(int(n%5)), n+1))
	}
	p.load(1000, stored...)
	for _, obj := range own.List() {
		if err := stock.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	sample := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns3", Name: "pod003"}, Spec: corev1.PodSpec{NodeName: "node2"}}
	for what, ask := range map[string]func(toolscache.Indexer) []string{
		"keys": func(x toolscache.Indexer) []string { return x.ListKeys() },
		"get": func(x toolscache.Indexer) []string {
			o, ok, err := x.Get(sample)
			return describeAll(asSlice(o, ok), err)
		},
		"namespaces":      func(x toolscache.Indexer) []string { return x.ListIndexFuncValues(toolscache.NamespaceIndex) },
		"nodes":           func(x toolscache.Indexer) []string { return x.ListIndexFuncValues("node") },
		"namespace":       func(x toolscache.Indexer) []string { return describeAll(x.ByIndex(toolscache.NamespaceIndex, "ns1")) },
		"node":            func(x toolscache.Indexer) []string { return describeAll(x.ByIndex("node", "node1")) },
		"namespace keys":  func(x toolscache.Indexer) []string { return orError(x.IndexKeys(toolscache.NamespaceIndex, "ns1")) },
		"node keys":       func(x toolscache.Indexer) []string { return orError(x.IndexKeys("node", "node1")) },
		"like, namespace": func(x toolscache.Indexer) []string { return describeAll(x.Index(toolscache.NamespaceIndex, sample)) },
		"like, node":      func(x toolscache.Indexer) []string { return describeAll(x.Index("node", sample)) },
		"no index": func(x toolscache.Indexer) []string {
			_, err := x.ByIndex("none", "")
			return []string{fmt.Sprint(err != nil)}
		},
	} {
		got, want := ask(own), ask(stock)
		slices.Sort(got)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	if own.Add(sample) == nil || own.Delete(sample) == nil || own.Replace(nil, "") == nil {
		t.Error("the cache was changed through an informer")
	}
}

func asSlice(obj any, exists bool) []any {
	if !exists {
		return nil
	}
	return []any{obj}
}

func describeAll(objs []any, err error) []string {
	var found []string
	for _, obj := range objs {
		found = append(found, describe(obj))
	}
	return orError(found, err)
}

func orError(keys []string, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	return keys
}
