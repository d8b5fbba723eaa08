package informers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestControllerRuntimeCache is TestInformersStayEqual for controller-runtime's
// caches, which operators are built on.
func TestControllerRuntimeCache(t *testing.T) {
	size := choose(t,
		scale{churn: 4 * time.Second, faults: []fault{killed}, names: 4},
		scale{churn: 90 * time.Second, faults: []fault{terminated, killed}, names: 20})
	cl := newCluster(t)
	writing := cl.dynamic()
	c := newChurn(writing, size.names)
	c.fill(t)
	var mirrors []mirror
	asked := &calls{}
	for _, one := range runtimeCaches() {
		mirrors = append(mirrors, one.start(cl, asked)...)
	}
	t.Logf("%d kinds in caches, first equal after %v, loaded %d times", len(mirrors), cl.converge(writing, mirrors), asked.loaded.Load())

	loaded, watches := asked.loaded.Load(), asked.watches.Load()
	cl.underFaults(c, size, func(phase string) {
		took := cl.converge(writing, mirrors)
		t.Logf("%s: equal %v after the last write; since the start: %d relists, %d watches from a resource version",
			phase, took.Round(time.Millisecond), asked.loaded.Load()-loaded, asked.watches.Load()-watches)
	})
}

// runtimeCache is a cache of the test, with the kinds that are read from it.
type runtimeCache struct {
	name        string
	contentType string // empty for controller-runtime's default
	namespaces  []string
	held        []cachedKind
}

// cachedKind is a kind in a cache. The cache holds typed objects if the kind
// has a Go type, and only metadata if onlyMetadata is set.
type cachedKind struct {
	kind         kind
	onlyMetadata bool
	selection
}

func runtimeCaches() []runtimeCache {
	var all, onlyMetadata []cachedKind
	for _, k := range kinds() {
		all = append(all, cachedKind{kind: k})
		onlyMetadata = append(onlyMetadata, cachedKind{kind: k, onlyMetadata: true})
	}
	return []runtimeCache{
		{name: "default cache", held: all},
		{name: "JSON cache", contentType: runtime.ContentTypeJSON, held: all},
		{name: "cache of namespaces", namespaces: []string{namespace(0), namespace(2)}, held: all},
		{name: "cache of metadata", held: onlyMetadata},
		{name: "cache with selectors", held: []cachedKind{
			{kind: pods, selection: selection{"team=a", "spec.nodeName=node-1"}},
			{kind: configMaps, selection: selection{"", "metadata.name=" + objectName(1)}},
			{kind: secrets, selection: selection{"team!=b", "type=Opaque"}},
			{kind: nodes, selection: selection{"team in (a,b)", "spec.unschedulable=true"}},
			{kind: widgets, selection: selection{"team=c", ""}},
		}},
		{name: "cache of namespaces with selectors", namespaces: []string{namespace(1), namespace(3)}, held: []cachedKind{
			{kind: pods, onlyMetadata: true, selection: selection{"", "spec.nodeName="}},
			{kind: configMaps, selection: selection{"team in (b,c)", ""}},
			{kind: widgets, onlyMetadata: true, selection: selection{"team!=c", ""}},
		}},
	}
}

// start runs the cache until the test ends, with an informer for each of its
// kinds.
func (r runtimeCache) start(cl *cluster, asked *calls) (mirrors []mirror) {
	cl.t.Helper()
	c, err := cache.New(cl.countingConfig(r.contentType, asked), r.options(cl.t))
	check(cl.t, err)
	for _, h := range r.held {
		_, err := c.GetInformer(cl.t.Context(), h.object(), cache.BlockUntilSynced(false))
		check(cl.t, err)
		mirrors = append(mirrors, mirror{r.name, r.scopeOf(h), h.reader(c)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			cl.t.Errorf("%s ended with %v", r.name, err)
		}
	})
	cl.t.Cleanup(func() { cancel(); running.Wait() })
	return mirrors
}

func (r runtimeCache) options(t *testing.T) cache.Options {
	t.Helper()
	options := cache.Options{Scheme: scheme.Scheme, ByObject: map[client.Object]cache.ByObject{}, ReaderFailOnMissingInformer: true}
	for _, name := range r.namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	for _, h := range r.held {
		byLabels, err := labels.Parse(h.labels)
		check(t, err)
		byFields, err := fields.ParseSelector(h.fields)
		check(t, err)
		options.ByObject[h.object()] = cache.ByObject{Label: byLabels, Field: byFields}
	}
	return options
}

func (r runtimeCache) scopeOf(h cachedKind) scope {
	s := scope{kind: h.kind, selection: h.selection}
	if h.kind.namespaced {
		s.namespaces = r.namespaces
	}
	return s
}

func (h cachedKind) object() client.Object {
	switch {
	case h.onlyMetadata:
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(h.kind.gvk())
		return o
	case h.kind.object == nil:
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(h.kind.gvk())
		return o
	default:
		return h.kind.object.DeepCopyObject().(client.Object)
	}
}

func (h cachedKind) list() (client.ObjectList, error) {
	gvk := h.kind.gvk()
	gvk.Kind += "List"
	switch {
	case h.onlyMetadata:
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(gvk)
		return l, nil
	case h.kind.object == nil:
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(gvk)
		return l, nil
	}
	made, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	l, ok := made.(client.ObjectList)
	if !ok {
		return nil, errors.New("no list: " + gvk.String())
	}
	return l, nil
}

// reader returns a function that lists the objects in the cache.
func (h cachedKind) reader(c cache.Cache) func(ctx context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		list, err := h.list()
		if err != nil {
			return nil, err
		}
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
		contents := map[string]string{}
		return contents, meta.EachListItem(list, func(item runtime.Object) error {
			o, err := meta.Accessor(item)
			if err == nil {
				contents[key(o)] = o.GetResourceVersion()
			}
			return err
		})
	}
}
