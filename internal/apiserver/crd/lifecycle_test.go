package crd

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"
)

// warningFunc is a warning.Recorder. The handler of custom resources calls it once it
// has resolved a request for a deprecated version, and before it answers.
type warningFunc func()

func (f warningFunc) AddWarning(string, string) { f() }

// lifecycleFixture is a Server without Kubernetes. It serves one definition. The definition's
// schemas count as compiled, and its storage only records that it was destroyed.
type lifecycleFixture struct {
	*Server
	row *Definition
	// ended is set by the end of the first state's storage. The test's bubble orders
	// reads and writes.
	ended bool
}

func newLifecycleFixture() *lifecycleFixture {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"}
	f := &lifecycleFixture{row: &Definition{
		Name: "things.a.example", UID: "u", Group: "a.example", Scope: apiextensionsv1.ClusterScoped, Wanted: names, Accepted: names,
		Versions: []Version{{Name: "v1", Served: true, Storage: true}}, Established: true, Spec: 1,
	}}
	cfg := Config{}
	cfg.fill()
	f.Server = &Server{
		cfg: cfg, catalog: NewCatalog(nil, cfg.Logger), compiled: newCompiledCache(1<<20, time.Minute, clock.RealClock{}),
		conversions: newConversionCache(1<<20, time.Minute, clock.RealClock{}), next: http.NotFoundHandler(), timeouts: timeouts{request: time.Minute},
	}
	f.mu.served, f.mu.retired, f.mu.retained = map[types.UID]*servedDefinition{}, map[*servedDefinition]bool{}, map[types.UID]*retainedResource{}
	f.catalog.AddHandler(f.changed)
	f.catalog.setRow(nil, f.row)
	first := newServedDefinition(f.Server, f.row)
	first.schemaSlot.value.Store(&compiledSchemas{})
	storage := &genericregistry.Store{DestroyFunc: func() { f.ended = true }}
	first.mu.versions["v1"] = &servedVersion{name: "v1", registry: &customresource.REST{Store: storage}, warning: "deprecated"}
	f.mu.served[f.row.UID] = first
	return f
}

// changeSpec replaces the definition by one with another spec.
func (f *lifecycleFixture) changeSpec() {
	next := *f.row
	next.Spec++
	f.catalog.setRow(f.row, &next)
}

// ask sends a request that is answered without storage: the definition has no status.
func (f *lifecycleFixture) ask(resolved func()) int {
	req := httptest.NewRequest(http.MethodGet, "/apis/a.example/v1/things/a/status", nil)
	ctx := request.WithRequestInfo(req.Context(), &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIGroup: "a.example", APIVersion: "v1", Resource: "things", Subresource: "status", Name: "a",
	})
	w := httptest.NewRecorder()
	(&handler{f.Server}).ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, warningFunc(resolved))))
	return w.Code
}

// TestStorageOutlivesItsRequests changes a definition after a request has found how the
// definition is served, and before the request is answered.
func TestStorageOutlivesItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLifecycleFixture()
		resolved := false
		code := f.ask(func() {
			resolved = true
			f.changeSpec()
			<-time.After(10 * time.Second) // longer than watches of the old state stay
			synctest.Wait()
			if f.ended {
				t.Error("the storage ended under a request")
			}
		})
		if code != http.StatusNotFound || !resolved {
			t.Errorf("status %d, want 404; resolved: %t", code, resolved)
		}
		<-time.After(time.Minute)
		if synctest.Wait(); !f.ended {
			t.Error("the storage did not end after its last request")
		}
	})
}

// TestRetiredDefinitionsTakeNoRequests changes a definition while a request holds the old
// state. New requests get the new state, and routes of the old one pass requests on.
func TestRetiredDefinitionsTakeNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLifecycleFixture()
		request := f.acquire(f.row.Name)
		old := request.served
		f.changeSpec()
		if next := f.acquire(f.row.Name).served; next == old || next.references.closed() {
			t.Error("a new request got the retired state")
		}
		if _, ok := old.begin(); ok {
			t.Error("a route of the retired state took a request")
		}
		if v, err := old.version("v1"); err != nil || v == nil {
			t.Errorf("the request lost its version: %v", err)
		}
		request.release()
		<-time.After(watchGrace + 1)
		if synctest.Wait(); !f.ended {
			t.Error("the storage did not end after its last request")
		}
	})
}
