package read_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/read"
	"github.com/millrace/millrace/internal/resource"
)

// revision is where the cache is.
const revision = 100

// etcd answers where it is.
type etcd struct {
	at  int64
	err error
}

func (e *etcd) Revision(context.Context) (int64, error) { return e.at, e.err }
func (e *etcd) RequestProgress(context.Context) error   { return nil }

// tier is a read tier over config maps, in front of a handler that says so.
type tier struct {
	cache    *cache.Cache
	resource *cache.Resource
	etcd     *etcd
	registry metrics.KubeRegistry
	handler  http.Handler
}

// passedOnStatus is what the handler behind the tier answers.
const passedOnStatus = http.StatusTeapot

type change func(*read.RouteConfig)

func newTier(t *testing.T, changes ...change) *tier {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	x := &tier{cache: cache.New(cache.Config{}), etcd: &etcd{at: revision}, registry: metrics.NewKubeRegistry()}
	x.resource = x.cache.Register(cache.Spec{Prefix: "/registry/configmaps/", Describe: func(e *resource.Entry) error {
		e.Irregular = strings.HasSuffix(e.Key, "/irregular")
		return nil
	}})
	cfg := read.RouteConfig{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Namespaced: true, Gets: true, Lists: true, Serializer: serializer.NewCodecFactory(scheme),
		Source: x.resource, Cache: x.cache, Consistent: cache.NewConsistent(x.cache, x.etcd),
		Decode: decode, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		Budget: encode.NewBudget(1 << 20), Compress: true,
		ConsistentError: func(err error) error { return fmt.Errorf("not consistent: %w", err) },
	}
	for _, c := range changes {
		c(&cfg)
	}
	route, err := read.NewRoute(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := read.NewMetrics(x.registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	served := read.NewTier(counters)
	served.Serve([]*read.Route{route})
	x.handler = served.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(passedOnStatus) }))
	return x
}

func decode(e *resource.Entry) (runtime.Object, error) {
	obj := &corev1.ConfigMap{}
	if err := e.Read(obj.Unmarshal); err != nil {
		return nil, err
	}
	obj.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	return obj, nil
}

// load puts objects into the cache. Keys are "namespace/name".
func (x *tier) load(t *testing.T, keys ...string) {
	t.Helper()
	var kvs []*mvccpb.KeyValue
	for i, key := range keys {
		ns, name, _ := strings.Cut(key, "/")
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"text": text(name)}}
		value, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if name == "broken" {
			value = []byte{0xff}
		}
		kvs = append(kvs, &mvccpb.KeyValue{Key: []byte("/registry/configmaps/" + key), Value: value, ModRevision: int64(i + 1), Version: 1})
	}
	loader := x.cache.BeginLoad()
	loader.Add(t.Context(), kvs)
	loader.End(t.Context(), revision)
}

func text(name string) string {
	if name == "large" {
		return strings.Repeat("large ", 40<<10)
	}
	return name
}

// send sends a GET as the handler chain would, with the request's information.
func (x *tier) send(t *testing.T, method, target string, header http.Header, wraps ...func(context.Context) context.Context) *httptest.ResponseRecorder {
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
	x.handler.ServeHTTP(w, req.WithContext(ctx))
	return w
}

// reasons is how often requests were passed on, by reason, and served, by verb.
func (x *tier) reasons(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := x.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			found[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
	}
	return found
}
