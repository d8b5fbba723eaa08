package informers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// form is the encoding and the shape in which an informer requests objects.
type form string

const (
	typedProtobuf    form = "typed protobuf"
	typedJSON        form = "typed JSON"
	metadataProtobuf form = "metadata protobuf"
	metadataJSON     form = "metadata JSON"
	unstructuredJSON form = "dynamic"
)

func forms() []form {
	return []form{typedProtobuf, typedJSON, metadataProtobuf, metadataJSON, unstructuredJSON}
}

// of reports whether objects of kind k can be requested in this form.
func (f form) of(k kind) bool { return k.object != nil || f != typedProtobuf && f != typedJSON }

// spec describes an informer.
type spec struct {
	scope
	form      form
	watchList bool
}

func (s spec) name() string {
	if s.watchList {
		return string(s.form) + " informer by watch-list"
	}
	return string(s.form) + " informer by LIST"
}

// specs returns n informers out of all combinations. Their order mixes kinds,
// forms and selections, so that a small n covers each of them. If n exceeds the
// number of combinations, they repeat with other namespaces and values.
func specs(n int, want func(spec) bool) []spec {
	var all []spec
	for turn := 0; len(all) < n; turn++ {
		combined := combinations(turn)
		newRand(int64(turn)).Shuffle(len(combined), func(i, j int) { combined[i], combined[j] = combined[j], combined[i] })
		for _, s := range combined {
			if want(s) {
				all = append(all, s)
			}
		}
	}
	return all[:n]
}

func combinations(turn int) (all []spec) {
	for _, k := range kinds() {
		scopes := [][]string{nil}
		if k.namespaced {
			scopes = append(scopes, []string{namespace(turn)})
		}
		for _, where := range scopes {
			for _, what := range selections(k, turn) {
				for _, f := range forms() {
					if f.of(k) {
						s := scope{k, where, what}
						all = append(all, spec{s, f, true}, spec{s, f, false})
					}
				}
			}
		}
	}
	return all
}

func selections(k kind, turn int) []selection {
	own := teams()[turn%len(teams())]
	name := objectName(turn)
	common := []selection{{}, {"team=" + own, ""}, {"team in (a,b),team!=" + own, ""}, {"", "metadata.name=" + name}}
	if k.namespaced {
		common = append(common, selection{"team", "metadata.namespace!=" + namespace(turn+1)})
	}
	return append(common, k.selections...)
}

// informer is one informer of the fleet.
type informer struct {
	spec
	calls  *calls
	shared cache.SharedIndexInformer
}

func (i *informer) mirror() mirror {
	return mirror{i.name(), i.scope, func(context.Context) (map[string]string, error) {
		contents := map[string]string{}
		for _, item := range i.shared.GetStore().List() {
			o, err := meta.Accessor(item)
			if err != nil {
				return nil, err
			}
			contents[key(o)] = o.GetResourceVersion()
		}
		return contents, nil
	}}
}

// fleet is a set of informers that share a few connections.
type fleet struct {
	informers []*informer
	stop      func()

	backwards struct {
		sync.Mutex
		seen []string
	}
}

// start makes the informers and runs them until the test ends or stop is
// called.
func (cl *cluster) start(all []spec) *fleet {
	cl.t.Helper()
	f := &fleet{}
	s := newSources(cl)
	for _, one := range all {
		i := &informer{spec: one, calls: &calls{}}
		var source cache.ListerWatcher = s.listWatch(one, i.calls)
		if !one.watchList {
			source = cache.ToListWatcherWithWatchListSemantics(s.listWatch(one, i.calls), onlyLists{})
		}
		i.shared = cache.NewSharedIndexInformer(source, i.example(), 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		_, err := i.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: f.updated(i)})
		check(cl.t, err)
		f.informers = append(f.informers, i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, i := range f.informers {
		running.Go(func() { i.shared.RunWithContext(ctx) })
	}
	f.stop = func() { cancel(); running.Wait() }
	cl.t.Cleanup(f.stop)
	return f
}

// example returns an object of the type that the informer expects.
func (i *informer) example() runtime.Object {
	switch i.form {
	case typedProtobuf, typedJSON:
		return i.kind.object
	case metadataProtobuf, metadataJSON:
		return &metav1.PartialObjectMetadata{}
	default:
		return &unstructured.Unstructured{}
	}
}

// updated returns an update handler. It records updates whose version is older
// than the one before.
func (f *fleet) updated(i *informer) func(before, after any) {
	return func(before, after any) {
		was, err := version(before)
		is, err2 := version(after)
		if err != nil || err2 != nil || is < was {
			f.backwards.Lock()
			defer f.backwards.Unlock()
			f.backwards.seen = append(f.backwards.seen, fmt.Sprintf("%s of %s: from %d to %d (%v, %v)", i.name(), i.scope, was, is, err, err2))
		}
	}
}

func version(object any) (uint64, error) {
	o, err := meta.Accessor(object)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(o.GetResourceVersion(), 10, 64)
}

// checkForward fails the test if an informer received an older version after a
// newer one.
func (f *fleet) checkForward(t *testing.T) {
	t.Helper()
	f.backwards.Lock()
	defer f.backwards.Unlock()
	if seen := f.backwards.seen; len(seen) > 0 {
		t.Errorf("%d updates went back, such as: %s", len(seen), seen[0])
	}
}

func (f *fleet) mirrors() (all []mirror) {
	for _, i := range f.informers {
		all = append(all, i.mirror())
	}
	return all
}

func (f *fleet) calls() (sum callTally) {
	for _, i := range f.informers {
		sum = sum.plus(i.calls)
	}
	return sum
}

// sources are the clients, one for each form.
type sources struct {
	typed    map[form]rest.Interface
	metadata map[form]metadata.Interface
	dynamic  dynamic.Interface
}

func newSources(cl *cluster) sources {
	cl.t.Helper()
	s := sources{map[form]rest.Interface{}, map[form]metadata.Interface{}, nil}
	for f, contentType := range map[form]string{typedProtobuf: runtime.ContentTypeProtobuf, typedJSON: runtime.ContentTypeJSON} {
		client, err := kubernetes.NewForConfig(cl.countingConfig(contentType, nil))
		check(cl.t, err)
		s.typed[f] = client.CoreV1().RESTClient()
	}
	var err error
	s.metadata[metadataProtobuf], err = metadata.NewForConfig(cl.countingConfig("", nil))
	check(cl.t, err)
	c := cl.countingConfig("", nil)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutProtobuf{next} })
	s.metadata[metadataJSON], err = metadata.NewForConfig(c)
	check(cl.t, err)
	s.dynamic, err = dynamic.NewForConfig(cl.countingConfig("", nil))
	check(cl.t, err)
	return s
}

// withoutProtobuf removes protobuf from the Accept header of the metadata
// client, which has no setting for that.
type withoutProtobuf struct{ next http.RoundTripper }

func (w withoutProtobuf) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	var accept []string
	for part := range strings.SplitSeq(req.Header.Get("Accept"), ",") {
		if !strings.Contains(part, "protobuf") {
			accept = append(accept, part)
		}
	}
	req.Header.Set("Accept", strings.Join(accept, ","))
	return w.next.RoundTrip(req)
}

// onlyLists is embedded in clients whose reflectors shall not use watch-lists.
type onlyLists struct{}

func (onlyLists) IsWatchListSemanticsUnSupported() bool { return true }

// listWatch returns the source of an informer or a watch. It counts its
// requests in to.
func (s sources) listWatch(of spec, to *calls) *cache.ListWatch {
	list, watcher := s.verbs(of)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return list(withCalls(ctx, to), of.narrow(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := watcher(withCalls(ctx, to), of.narrow(options))
			if err != nil {
				return nil, err
			}
			return to.countGone(w), nil
		},
	}
}

func (s spec) narrow(options metav1.ListOptions) metav1.ListOptions {
	options.LabelSelector, options.FieldSelector = s.labels, s.fields
	return options
}

// verbs returns the functions with which a client lists and watches.
func (s sources) verbs(of spec) (cache.ListWithContextFunc, cache.WatchFuncWithContext) {
	where := metav1.NamespaceAll
	if len(of.namespaces) > 0 {
		where = of.namespaces[0]
	}
	switch of.form {
	case typedProtobuf, typedJSON:
		lw := cache.NewFilteredListWatchFromClient(s.typed[of.form], of.kind.resource.Resource, where, func(o *metav1.ListOptions) {
			*o = of.narrow(*o)
		})
		return lw.ListWithContextFunc, lw.WatchFuncWithContext
	case metadataProtobuf, metadataJSON:
		client := s.metadata[of.form].Resource(of.kind.resource).Namespace(where)
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch
	default:
		client := s.dynamic.Resource(of.kind.resource).Namespace(where)
		return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch
	}
}
