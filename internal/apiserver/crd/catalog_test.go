package crd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

// fixture has a storage of definitions over an etcd of its own, and their catalog.
type fixture struct {
	catalog *crd.Catalog
	rest    *customresourcedefinition.REST
	status  *customresourcedefinition.StatusREST
	// reload makes the cache read all definitions anew.
	reload func()
	client *kubernetes.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	client := testserver.RunEtcd(t, nil)
	t.Cleanup(func() { _ = client.Close() })
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	objects := cache.New(cache.Config{Logger: quiet})
	feed := etcdfeed.NewFeed(etcdfeed.FeedConfig{Client: client.Client, Prefix: "/registry/", Sink: objects, Logger: quiet})
	backend := &storage.Backend{Client: client, Cache: objects, Consistent: cache.NewConsistent(objects, feed)}
	decorator := storage.Decorator{Backend: func(*storagebackend.ConfigForResource) (*storage.Backend, error) { return backend, nil }}
	config := storagebackend.NewDefaultConfig("/registry", apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	gr := schema.GroupResource{Group: apiextensions.GroupName, Resource: "customresourcedefinitions"}
	definitions, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, generic.RESTOptions{
		StorageConfig: config.ForResource(gr), Decorator: decorator.Decorate, ResourcePrefix: "apiextensions.k8s.io/customresourcedefinitions",
	})
	must(t, err)
	t.Cleanup(definitions.Destroy)
	f := &fixture{
		catalog: crd.NewCatalog(definitions.Storage.Storage.(*storage.Store), quiet),
		rest:    definitions, client: client, status: customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, definitions),
	}
	stop := runUntilStopped(func(ctx context.Context) { _ = feed.Run(ctx) })
	f.reload = func() {
		stop()
		stop = runUntilStopped(func(ctx context.Context) { _ = feed.Run(ctx) })
	}
	t.Cleanup(func() { stop() })
	t.Cleanup(runUntilStopped(func(ctx context.Context) { _ = f.catalog.Run(ctx) }))
	eventually(t, func() error {
		if !f.catalog.Synced() {
			return fmt.Errorf("the catalog is not synced")
		}
		return nil
	})
	return f
}

// runUntilStopped runs a function in the background, until the returned one is called.
func runUntilStopped(run func(context.Context)) func() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition returns nil.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	var last error
	if wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, func(context.Context) (bool, error) {
		last = condition()
		return last == nil, nil
	}) != nil {
		t.Fatal(last)
	}
}

var ctx = request.WithNamespace(request.NewContext(), "")

// define creates a definition with one field in its schema.
func (f *fixture) define(t *testing.T, plural, group, field string) {
	t.Helper()
	_, err := f.rest.Create(ctx, internal(t, definition(plural, group, field)), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	must(t, err)
}

func definition(plural, group, field string) *apiextensionsv1.CustomResourceDefinition {
	kind := "K" + plural
	full := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, Singular: "one" + plural, ListKind: kind + "List", ShortNames: []string{"x" + plural}},
		},
	}
	for _, version := range []string{"v1", "v1beta1"} {
		full.Spec.Versions = append(full.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: {Type: "string"}},
			}},
		})
	}
	return full
}

func internal(t *testing.T, full *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(full)
	made := &apiextensions.CustomResourceDefinition{}
	must(t, apiextensionsapiserver.Scheme.Convert(full, made, nil))
	return made
}

// change updates a definition, or its status.
func (f *fixture) change(t *testing.T, name string, status bool, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	update := f.rest.Update
	if status {
		update = f.status.Update
	}
	stored, err := f.rest.Get(ctx, name, &metav1.GetOptions{})
	must(t, err)
	full := &apiextensionsv1.CustomResourceDefinition{}
	must(t, apiextensionsapiserver.Scheme.Convert(stored, full, nil))
	change(full)
	_, _, err = update(ctx, name, rest.DefaultUpdatedObjectInfo(internal(t, full)), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	must(t, err)
}

// row waits until the row of a definition is ready.
func (f *fixture) row(t *testing.T, name string, ready func(*crd.Definition) bool) *crd.Definition {
	t.Helper()
	var row *crd.Definition
	eventually(t, func() error {
		if row = f.catalog.Get(name); !ready(row) {
			return fmt.Errorf("row of %s is %+v", name, row)
		}
		return nil
	})
	return row
}

func exists(d *crd.Definition) bool { return d != nil }

func TestRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.define(t, "things", "a.example", "color")
	made := f.row(t, "things.a.example", exists)
	if made.Group != "a.example" || !made.Namespaced() || made.Established || made.Deleting || made.Webhook || made.UID == "" ||
		made.Wanted.Kind != "Kthings" || made.Accepted.Plural != "" || !slices.Equal(made.StoredVersions, []string{"v1"}) {
		t.Errorf("row is %+v", made)
	}
	if len(made.Versions) != 2 || made.Versions[0].Name != "v1" || !made.Versions[0].Storage || made.Versions[1].Storage || !made.Served("v1beta1") {
		t.Errorf("versions are %+v", made.Versions)
	}
	if f.catalog.Find("a.example", "things") != nil {
		t.Error("found by a plural that is not accepted")
	}

	f.change(t, made.Name, true, func(full *apiextensionsv1.CustomResourceDefinition) {
		full.Status.AcceptedNames = full.Spec.Names
		full.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: metav1.Unix(1000, 0)},
		}
	})
	established := f.row(t, made.Name, func(d *crd.Definition) bool { return d.Established })
	if established.Spec != made.Spec || established.Revision <= made.Revision || !established.NamesAccepted || established.EstablishedAt.Unix() != 1000 {
		t.Errorf("after a change of status row is %+v", established)
	}
	if f.catalog.Find("a.example", "things") != established || f.catalog.Find("a.example", "thing") != nil {
		t.Error("not found by the accepted plural alone")
	}

	f.change(t, made.Name, false, func(full *apiextensionsv1.CustomResourceDefinition) {
		// Versions with the same schema share it in memory.
		full.Spec.Versions[1].Schema = full.Spec.Versions[1].Schema.DeepCopy()
		full.Spec.Versions[1].Schema.OpenAPIV3Schema.Description = "other"
	})
	other := f.row(t, made.Name, func(d *crd.Definition) bool { return d.Spec != made.Spec })
	if other.Versions[0].Content != made.Versions[0].Content || other.Versions[1].Content == made.Versions[1].Content {
		t.Errorf("contents are %+v, were %+v", other.Versions, made.Versions)
	}
	full, err := f.catalog.Full(made.Name)
	must(t, err)
	if full.Spec.Versions[1].Schema.OpenAPIV3Schema.Description != "other" || full.ResourceVersion != fmt.Sprint(other.Revision) || full.UID != made.UID {
		t.Errorf("decoded: %+v", full)
	}
	if _, err := f.catalog.Full("none.a.example"); !apierrors.IsNotFound(err) {
		t.Errorf("decoding a definition that does not exist: %v", err)
	}
	for _, c := range []struct {
		row  *crd.Definition
		want string
	}{{made, ""}, {other, "other"}} {
		full, err := f.catalog.FullOf(c.row)
		must(t, err)
		if got := full.Spec.Versions[1].Schema.OpenAPIV3Schema.Description; got != c.want {
			t.Errorf("the state at %d is decoded with %q, want %q", c.row.Revision, got, c.want)
		}
		must(t, f.catalog.StoredOf(c.row, func(stored []byte) error {
			if got := strings.Contains(string(stored), `"description":"other"`); got != (c.want == "other") {
				t.Errorf("stored at %d: %s", c.row.Revision, stored)
			}
			return nil
		}))
	}
	if err := f.catalog.StoredOf(&crd.Definition{Name: "none.a.example"}, nil); !errors.Is(err, crd.ErrChanged) {
		t.Errorf("reading a definition that does not exist: %v", err)
	}
}

// TestRowsOfOldDefinitions checks the rows of definitions that an old version of Kubernetes
// has stored. They have the defaults that today's Kubernetes sets.
func TestRowsOfOldDefinitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(text string) int64 {
		t.Helper()
		done, err := f.client.Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/things.a.example", text)
		must(t, err)
		return done.Header.Revision
	}
	old := `{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.a.example", "uid": "u"},
		"spec": {"group": "a.example", "version": "v1", "names": {"plural": "things", "kind": "Thing"}, "validation": {"openAPIV3Schema": {"type": "object"}}}}`
	put(old)
	row := f.row(t, "things.a.example", exists)
	if row.Wanted.ListKind != "ThingList" || row.Wanted.Singular != "thing" || !row.Namespaced() || !row.Unchecked || row.Webhook ||
		len(row.Versions) != 1 || !row.Served("v1") || row.StorageVersion() != "v1" || !slices.Equal(row.StoredVersions, []string{"v1"}) {
		t.Errorf("row is %+v", row)
	}
	put("{") // cannot be read: the row stays
	revision := put(strings.Replace(old, `"uid"`, `"labels": {"a": "b"}, "uid"`, 1))
	if again := f.row(t, row.Name, func(d *crd.Definition) bool { return d.Revision == revision }); again.Spec != row.Spec || row.Spec == 0 {
		t.Errorf("row is %+v, was %+v", again, row)
	}
}

// recordingHandler records the changes of rows that a handler of the catalog gets.
type recordingHandler struct {
	mu struct {
		sync.Mutex
		rows map[string]*crd.Definition
		// err describes the first change whose row before is not in rows.
		err error
	}
}

func newRecordingHandler() *recordingHandler {
	h := &recordingHandler{}
	h.mu.rows = map[string]*crd.Definition{}
	return h
}

func (h *recordingHandler) change(before, after *crd.Definition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := after
	if d == nil {
		d = before
	}
	if h.mu.rows[d.Name] != before {
		h.mu.err = fmt.Errorf("%s changed from %+v, last was %+v", d.Name, before, h.mu.rows[d.Name])
	}
	if h.mu.rows[d.Name] = after; after == nil {
		delete(h.mu.rows, d.Name)
	}
}

func (h *recordingHandler) agrees(c *crd.Catalog) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.err != nil {
		return h.mu.err
	}
	rows := map[string]*crd.Definition{}
	for _, d := range c.All() {
		rows[d.Name] = d
	}
	if !reflect.DeepEqual(h.mu.rows, rows) {
		return fmt.Errorf("a handler has %d rows, the catalog %d", len(h.mu.rows), len(rows))
	}
	return nil
}

// TestHandlersGetAllChanges changes definitions at random and reloads the cache. Handlers are
// added before and in between.
func TestHandlersGetAllChanges(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFixture(t)
	var handlers []*recordingHandler
	addHandler := func() {
		h := newRecordingHandler()
		handlers = append(handlers, h)
		f.catalog.AddHandler(h.change)
	}
	addHandler()
	live := map[string]bool{}
	for i := range 60 {
		names := []string{}
		for name := range live {
			names = append(names, name)
		}
		slices.Sort(names)
		switch n := random.IntN(4); {
		case i%20 == 10:
			f.reload()
			addHandler()
		case n == 0 && len(names) > 0:
			name := names[random.IntN(len(names))]
			delete(live, name)
			_, _, err := f.rest.Store.Delete(ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
			must(t, err)
		case n == 1 && len(names) > 0:
			f.change(t, names[random.IntN(len(names))], false, func(full *apiextensionsv1.CustomResourceDefinition) {
				full.Labels = map[string]string{"round": fmt.Sprint(i)}
			})
		default:
			plural, group := fmt.Sprintf("p%d", i), fmt.Sprintf("g%d.example", random.IntN(3))
			f.define(t, plural, group, "color")
			live[plural+"."+group] = true
		}
	}
	eventually(t, func() error {
		if got := len(f.catalog.All()); got != len(live) {
			return fmt.Errorf("catalog has %d rows, want %d", got, len(live))
		}
		for name := range live {
			stored, err := f.rest.Get(ctx, name, &metav1.GetOptions{})
			must(t, err)
			if row := f.catalog.Get(name); row == nil || fmt.Sprint(row.Revision) != stored.(*apiextensions.CustomResourceDefinition).ResourceVersion {
				return fmt.Errorf("row of %s is %+v", name, row)
			}
		}
		return nil
	})
	for _, h := range handlers {
		eventually(t, func() error { return h.agrees(f.catalog) })
	}
	groups := map[string]bool{}
	for _, row := range f.catalog.All() {
		groups[row.Group] = true
	}
	grouped := 0
	for group := range groups {
		rows := f.catalog.Group(group)
		grouped += len(rows)
		if !slices.IsSortedFunc(rows, func(a, b *crd.Definition) int { return slices.Compare([]string{a.Name}, []string{b.Name}) }) {
			t.Errorf("rows of %s are not sorted", group)
		}
	}
	if grouped != len(live) {
		t.Errorf("%d rows in groups, want %d", grouped, len(live))
	}
}

// TestCatchUp checks that a definition which is in the cache has a row after CatchUp.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 50 {
		plural := fmt.Sprintf("p%d", i)
		f.define(t, plural, "a.example", "color")
		// A consistent read waits for the cache.
		_, err := f.rest.Get(ctx, plural+".a.example", &metav1.GetOptions{})
		must(t, err)
		must(t, f.catalog.CatchUp(t.Context()))
		if f.catalog.Get(plural+".a.example") == nil {
			t.Fatalf("no row of %s", plural)
		}
	}
}
