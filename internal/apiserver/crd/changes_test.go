package crd

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

// changeFixture is a Server over a cache without an etcd. The test moves the cache and the
// rows of the catalog by hand, so it decides how far the rows lag.
type changeFixture struct {
	*Server
	t       *testing.T
	objects *cache.Cache
	full    *apiextensionsv1.CustomResourceDefinition
	// revision is that of the newest definition in the cache.
	revision int64
}

// Revision implements cache.RevisionSource.
func (f *changeFixture) Revision(context.Context) (int64, error) { return f.revision, nil }

// RequestProgress implements cache.RevisionSource.
func (f *changeFixture) RequestProgress(context.Context) error { return nil }

const changedName = "things.a.example"

func newChangeFixture(t *testing.T) *changeFixture {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	f := &changeFixture{t: t, objects: cache.New(cache.Config{Logger: quiet}), full: changingDefinition()}
	backend := &storage.Backend{Cache: f.objects, Consistent: cache.NewConsistent(f.objects, f)}
	decorator := &storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
	options := func(codec runtime.Codec, gr schema.GroupResource) generic.RESTOptions {
		config := storagebackend.NewDefaultConfig("/registry", codec)
		return generic.RESTOptions{StorageConfig: config.ForResource(gr), Decorator: decorator.Decorate, ResourcePrefix: gr.Group + "/" + gr.Resource}
	}
	definitions, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme,
		options(apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion), apiextensions.Resource(definitionsName)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(definitions.Destroy)
	converters, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Logger: quiet}
	cfg.fill()
	f.Server = &Server{
		cfg: cfg, catalog: NewCatalog(definitions.Storage.Storage.(*storage.Store), quiet), next: http.NotFoundHandler(),
		compiled:       newCompiledCache(1<<20, time.Minute, clock.RealClock{}),
		conversions:    newConversionCache(1<<20, time.Minute, clock.RealClock{}),
		compileLimiter: newLimiter(), converters: converters, maxBody: 1 << 20, timeouts: timeouts{request: time.Minute},
		options:         options(unstructured.UnstructuredJSONScheme, schema.GroupResource{Group: "a.example", Resource: "things"}),
		scaleSerializer: sync.OnceValue(newScaleSerializer),
	}
	f.mu.served, f.mu.retired = map[types.UID]*servedDefinition{}, map[*servedDefinition]bool{}
	f.mu.retained, f.mu.gone = map[types.UID]*retainedResource{}, map[schema.GroupResource]bool{}
	f.catalog.AddHandler(f.changed)
	t.Cleanup(f.destroy)
	f.store()
	f.load()
	f.follow()
	return f
}

// changingDefinition is served by a deprecated version, so that a warning tells when a
// request has what it needs.
func changingDefinition() *apiextensionsv1.CustomResourceDefinition {
	full := wide(2)
	full.Name, full.UID = changedName, "u"
	full.Spec.Scope = apiextensionsv1.ClusterScoped
	full.Spec.Versions[0].Deprecated = true
	full.Status.AcceptedNames, full.Status.StoredVersions = full.Spec.Names, []string{"v1"}
	full.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}
	return full
}

// store returns the definition as etcd would send it, with a new revision.
func (f *changeFixture) store() feed.Object {
	f.revision++
	return feed.Object{
		Key:   []byte("/registry/apiextensions.k8s.io/customresourcedefinitions/" + changedName),
		Value: stored(f.t, f.full, v1beta1.SchemeGroupVersion), Revision: f.revision,
	}
}

// load has the cache load the definition anew: its event log is empty then.
func (f *changeFixture) load() {
	loader := f.objects.BeginLoad()
	loader.Add(f.t.Context(), []feed.Object{f.store()})
	loader.End(f.t.Context(), f.revision)
}

// change changes the definition in the cache. Its row stays.
func (f *changeFixture) change(how func(*apiextensionsv1.CustomResourceDefinition)) {
	how(f.full)
	f.objects.Apply(f.t.Context(), []feed.Object{f.store()})
}

func renameShort(full *apiextensionsv1.CustomResourceDefinition) {
	full.Spec.Names.ShortNames = append(full.Spec.Names.ShortNames, "x"+strings.Repeat("y", len(full.Spec.Names.ShortNames)))
}

// follow makes the row as new as the cache.
func (f *changeFixture) follow() {
	f.t.Helper()
	row, err := f.catalog.readRow(f.catalog.store.Resource().Snapshot().Get(changedName), interner{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.catalog.setRow(f.catalog.Get(changedName), row)
}

// create asks for a dry run of a creation, which writes nothing. ready is called when the
// request has what it needs of the definition.
func (f *changeFixture) create(ready func()) *httptest.ResponseRecorder {
	return f.createFrom("application/json", `{"apiVersion":"a.example/v1","kind":"Thing","metadata":{"name":"one"}}`, ready)
}

func (f *changeFixture) createFrom(mediaType, body string, ready func()) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/apis/a.example/v1/things?dryRun=All", strings.NewReader(body))
	req.Header.Set("Content-Type", mediaType)
	ctx := request.WithRequestInfo(request.WithNamespace(req.Context(), ""), &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: "a.example", APIVersion: "v1", Resource: "things",
	})
	w := httptest.NewRecorder()
	(&handler{f.Server}).ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, warningFunc(ready))))
	return w
}

// wantCreated checks an answer, and that all references were given back.
func (f *changeFixture) wantCreated(when string, w *httptest.ResponseRecorder) {
	f.t.Helper()
	if w.Code != http.StatusCreated {
		f.t.Errorf("%s: status %d, want 201: %s", when, w.Code, w.Body)
	}
	f.wantReleased(when)
}

func (f *changeFixture) wantReleased(when string) {
	f.t.Helper()
	if held, _ := f.references(); held != 0 {
		f.t.Errorf("%s: %d references are held after the answer", when, held)
	}
}

// TestWritesWhileDefinitionChanges sends writes at each moment of a change.
func TestWritesWhileDefinitionChanges(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	f.wantCreated("before a change", f.create(func() {}))
	f.wantCreated("changed under the request", f.create(func() { f.change(renameShort) }))
	f.wantCreated("the row is behind", f.create(func() {}))
	f.follow()
	f.change(renameShort)
	f.wantCreated("the row is behind, and nothing is compiled", f.create(func() {}))
	f.wantCreated("the row follows under the request", f.create(f.follow))
	f.change(func(full *apiextensionsv1.CustomResourceDefinition) { full.Status.StoredVersions = nil })
	f.change(renameShort)
	f.wantCreated("two changes ahead of the row", f.create(func() {}))
}

// TestCreateWaitsWhileDefinitionIsDeleted deletes a definition while a creation waits because
// the definition is new. The object would hold up the deletion.
func TestCreateWaitsWhileDefinitionIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newChangeFixture(t)
		established := func() {
			f.change(func(full *apiextensionsv1.CustomResourceDefinition) {
				full.Status.Conditions[1].LastTransitionTime = metav1.Now()
			})
			f.follow()
		}
		established()
		f.wantCreated("a new definition", f.create(func() {}))
		established()
		w := f.create(func() {
			f.change(func(full *apiextensionsv1.CustomResourceDefinition) { full.DeletionTimestamp = new(metav1.Now()) })
			f.follow()
		})
		if w.Code != http.StatusForbidden {
			t.Errorf("status %d, want 403: %s", w.Code, w.Body)
		}
		f.wantReleased("forbidden")
	})
}

// TestBodyInProtobuf sends bodies in protobuf, which custom resources do not have. Kubernetes'
// handler panics without a strict decoder.
func TestBodyInProtobuf(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "a.example/v1", Kind: "Thing"}, Raw: []byte("x")}
	encoded, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"{}", "k8s\x00" + string(encoded)} {
		if w := f.createFrom(runtime.ContentTypeProtobuf, body, func() {}); w.Code != http.StatusBadRequest {
			t.Errorf("%q: status %d, want 400: %s", body, w.Code, w.Body)
		}
	}
	f.wantReleased("after both")
}

// TestDeletionWaitsForCreations deletes a definition while a request may still create objects.
// The deletion sees the request until it is answered, also when the spec has changed since.
func TestDeletionWaitsForCreations(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	u, err := f.use(t.Context(), changedName, func(*usage) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	u.admitCreation()
	f.change(func(full *apiextensionsv1.CustomResourceDefinition) { full.DeletionTimestamp = new(metav1.Now()) })
	f.follow()
	late, err := f.use(t.Context(), changedName, func(*usage) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if late.admitCreation(); late.creates {
		t.Error("a request may create objects of a definition that is being deleted")
	}
	late.release()
	f.change(renameShort)
	f.follow()
	row := f.catalog.Get(changedName)
	if !u.creates || !f.creating(row) {
		t.Error("the deletion does not see the request")
	}
	if u.release(); f.creating(row) {
		t.Error("the deletion waits for a request that is answered")
	}
	f.wantReleased("after both")
}

// TestReadsOfChangedDefinition compiles the schemas of a route's request after the definition
// has changed, and after it has gone.
func TestReadsOfChangedDefinition(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	old := f.servedDefinition(changedName)
	end, ok := old.begin()
	if !ok {
		t.Fatal("the route takes no request")
	}
	f.change(func(full *apiextensionsv1.CustomResourceDefinition) {
		full.Status.StoredVersions = []string{"v1", "v0"}
	})
	f.follow()
	f.change(renameShort)
	f.follow()
	f.objects.Apply(t.Context(), []feed.Object{{Key: f.store().Key, Revision: f.revision, Deleted: true}})
	f.catalog.setRow(f.catalog.Get(changedName), nil)
	if _, err := old.schemas(); err != nil {
		t.Errorf("a request under way lost its schemas: %v", err)
	}
	end()
	f.wantReleased("after the request")
	if f.servedDefinition(changedName) != nil {
		t.Error("a definition that is gone is served")
	}
}

// TestDefinitionThatNobodyRemembers loads another state of a definition while its row lags. So
// the state of the row is nowhere, and a client must try again.
func TestDefinitionThatNobodyRemembers(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	renameShort(f.full)
	f.load()
	w := f.create(func() { t.Error("answered") })
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, Retry-After %q, want 429 and 1: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	f.wantReleased("after 429")
	f.follow()
	f.wantCreated("once the row is there", f.create(func() {}))
}

// TestRequestSeesNewestRow changes the version that a definition serves, and sends a request
// between the change of the row and the end of the old state.
func TestRequestSeesNewestRow(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	old := f.servedDefinition(changedName)
	f.change(func(full *apiextensionsv1.CustomResourceDefinition) { full.Spec.Versions[0].Name = "v2" })
	row, err := f.catalog.readRow(f.catalog.store.Resource().Snapshot().Get(changedName), interner{})
	if err != nil {
		t.Fatal(err)
	}
	f.catalog.storeRow(f.catalog.Get(changedName), row)
	for _, version := range []string{"v1", "v2"} {
		c := &resourceRequest{info: &request.RequestInfo{Verb: "list", APIGroup: "a.example", APIVersion: version, Resource: "things"}}
		u, err := f.use(t.Context(), changedName, c.prepare)
		if served := err == nil; served != (version == "v2") {
			t.Errorf("%s: %v", version, err)
		}
		if err == nil {
			u.release()
		}
	}
	f.wantReleased("after both")
	if !old.references.closed() {
		t.Error("the old state takes requests")
	}
}

// TestReferenceIsReleasedOnce releases a usage twice, and has the preparation panic.
func TestReferenceIsReleasedOnce(t *testing.T) {
	t.Parallel()
	f := newChangeFixture(t)
	u, err := f.use(t.Context(), changedName, func(*usage) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	u.release()
	u.release()
	f.wantReleased("after two releases")
	func() {
		defer func() { _ = recover() }()
		_, _ = f.use(t.Context(), changedName, func(*usage) error { panic("in foreign code") })
		t.Error("no panic")
	}()
	f.wantReleased("after a panic")
}
