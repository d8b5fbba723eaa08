package openapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	openapicontroller "k8s.io/apiextensions-apiserver/pkg/controller/openapi"
	openapiv3controller "k8s.io/apiextensions-apiserver/pkg/controller/openapiv3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	v2aggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	v3aggregator "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// upstream is Kubernetes' own implementation: an aggregator in front of local servers.
// The last of them has the controllers of custom resources.
type upstream struct {
	t       testing.TB
	source  *cachetesting.FakeControllerSource
	handler http.Handler
	v2      v2aggregator.SpecAggregator
	v3      v3aggregator.SpecProxier
}

// delegate is a local server of the aggregator.
type delegate struct {
	genericapiserver.DelegationTarget
	handler http.Handler
	next    genericapiserver.DelegationTarget
}

func (d delegate) UnprotectedHandler() http.Handler                { return d.handler }
func (d delegate) NextDelegate() genericapiserver.DelegationTarget { return d.next }
func (d delegate) ListedPaths() []string                           { return []string{"/"} }

// newUpstream returns an aggregator before servers with these resources, in the order of
// the chain.
func newUpstream(t testing.TB, definitions []*definition, builtins ...builtinResource) *upstream {
	t.Helper()
	u := &upstream{t: t, source: cachetesting.NewFakeControllerSource()}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for _, d := range definitions {
		u.create(d)
	}
	var chain genericapiserver.DelegationTarget = genericapiserver.NewEmptyDelegate()
	for i := len(builtins) - 1; i >= 0; i-- {
		chain = delegate{chain, u.serve(ctx, builtins[i], i == len(builtins)-1), chain}
	}
	at := mux.NewPathRecorderMux("upstream")
	downloader := v2aggregator.NewDownloader()
	config := &common.Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: "aggregator", Version: "v1"}},
		GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil },
	}
	var err error
	if u.v2, err = v2aggregator.BuildAndRegisterAggregator(&downloader, chain, nil, config, at); err != nil {
		t.Fatal(err)
	}
	if u.v3, err = v3aggregator.BuildAndRegisterAggregator(v3aggregator.NewDownloader(), chain, nil, nil, at); err != nil {
		t.Fatal(err)
	}
	u.handler = at
	return u
}

func (u *upstream) serve(ctx context.Context, b builtinResource, resources bool) http.Handler {
	static, err := b.v2()
	if err != nil {
		u.t.Fatal(err)
	}
	v3, at, err := b.v3Service()
	if err != nil {
		u.t.Fatal(err)
	}
	v2 := handler.NewOpenAPIService(static)
	v2.RegisterOpenAPIVersionedService("/openapi/v2", at)
	if resources {
		informer := informer{cache.NewSharedIndexInformer(u.source, &definition{}, 0, cache.Indexers{})}
		controller, controller3 := openapicontroller.NewController(informer), openapiv3controller.NewController(informer)
		go informer.Run(ctx.Done())
		go controller.Run(static, v2, ctx.Done())
		go controller3.Run(v3, ctx.Done())
	}
	return at
}

func (u *upstream) create(d *definition) { u.source.Add(d.DeepCopy()) }
func (u *upstream) update(d *definition) { u.source.Modify(d.DeepCopy()) }
func (u *upstream) remove(d *definition) { u.source.Delete(d.DeepCopy()) }

// informer is one of definitions.
type informer struct{ cache.SharedIndexInformer }

func (i informer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }

func (i informer) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(i.GetIndexer())
}

// ServeHTTP answers with the documents that the controllers have published so far.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, name := range u.v3.GetAPIServiceNames() {
		if err := u.v3.UpdateAPIServiceSpec(name); err != nil {
			u.t.Log(err)
		}
	}
	u.handler.ServeHTTP(w, r)
}

// addService adds a service to the aggregation layer.
func (u *upstream) addService(group string, priority int32, h http.Handler) {
	u.t.Helper()
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: "v1", GroupPriorityMinimum: priority, Service: &apiregistrationv1.ServiceReference{},
		},
	}
	if err := errors.Join(u.v2.AddUpdateAPIService(service, h), u.v2.UpdateAPIServiceSpec(service.Name)); err != nil {
		u.t.Fatal(err)
	}
	u.v3.AddUpdateAPIService(h, service)
}

// eventually calls wrong until it returns "".
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for {
		found := wrong()
		if found == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal(found)
		}
	}
}
