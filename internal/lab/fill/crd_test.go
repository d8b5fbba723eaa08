package fill

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// TestKubernetesAdmitsDefinitions validates the definitions with Kubernetes' own
// code, and the custom objects with the definitions' schemas.
func TestKubernetesAdmitsDefinitions(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, properties := range []int{fixedPropertyCount, 17, 100, 700} {
		g := mustGenerator(t, Shape{Seed: 1, CRDs: 30, Groups: 7, Properties: properties, Objects: 60})
		for i := range 30 {
			crd := g.CRD(i)
			scheme.Default(crd)
			var internal apiextensions.CustomResourceDefinition
			if err := scheme.Convert(crd, &internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{crdVersion}
			if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), &internal); len(errs) > 0 {
				t.Fatalf("definition %d with %d properties: %v", i, properties, errs.ToAggregate())
			}
			schema := internal.Spec.Validation
			if schema == nil {
				schema = internal.Spec.Versions[0].Schema
			}
			validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range []int{i, i + 30} {
				obj := g.CustomObject(k)
				if errs := validation.ValidateCustomResource(nil, obj.Object, validator); len(errs) > 0 {
					t.Errorf("custom object %d: %v", k, errs.ToAggregate())
				}
			}
		}
	}
}

func TestDefinitionsHaveTheirProperties(t *testing.T) {
	for _, c := range []struct{ properties, least, most int }{
		{fixedPropertyCount, 0, 5_000}, {16, 0, 10_000}, {17, 0, 10_000}, {100, 12_000, 30_000}, {1000, 100_000, 200_000}, {5000, 600_000, 1_000_000},
	} {
		g := mustGenerator(t, Shape{Seed: 3, CRDs: 11, Properties: c.properties})
		rules := 0
		for i := range 11 {
			crd := g.CRD(i)
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			if n := countProperties(spec); n != c.properties {
				t.Errorf("definition %d has %d properties, want %d", i, n, c.properties)
			}
			if text, _ := json.Marshal(crd); len(text) < c.least || len(text) > c.most {
				t.Errorf("%d properties come to %d bytes", c.properties, len(text))
			}
			if len(spec.XValidations) > 0 {
				rules++
			}
		}
		if rules != 2 {
			t.Errorf("%d of 11 definitions have rules", rules)
		}
	}
}

func countProperties(schema apiextv1.JSONSchemaProps) int {
	if schema.Items != nil {
		return countProperties(*schema.Items.Schema)
	}
	n := len(schema.Properties)
	for _, member := range schema.Properties {
		n += countProperties(member)
	}
	return n
}

func TestNamesOfDefinitionsAreTheirOwn(t *testing.T) {
	shape := Shape{Seed: 7, CRDs: 500, Groups: 20, Objects: 1500}
	a := mustGenerator(t, shape)
	shape.Seed = 8
	other := mustGenerator(t, shape)
	seen, groups := map[string]bool{}, map[string]bool{}
	for i := range 500 {
		if d := a.Definition(i); !seen[d.Name()] && !seen[d.ShortName] && !seen[d.Kind] {
			seen[d.Name()], seen[d.ShortName], seen[d.Kind], groups[d.Group] = true, true, true, true
		} else {
			t.Errorf("%+v shares a name", d)
		}
		if x := other.Definition(i); seen[x.Name()] || seen[x.ShortName] {
			t.Errorf("%+v is in two seeds", x)
		}
	}
	if len(groups) != 20 || !groups["g017.fill.millrace.dev"] {
		t.Errorf("groups are %v", groups)
	}
	if x, y := a.CustomObject(3), a.CustomObject(503); x.GetKind() != y.GetKind() || x.GetName() == y.GetName() {
		t.Errorf("got %s %s and %s %s", x.GetKind(), x.GetName(), y.GetKind(), y.GetName())
	}
}

// fakeCRDs serves definitions and custom objects. fakeAPI serves all other
// requests. A new definition is served from the second GET of its objects on. A
// deleted definition still appears in the next two lists.
type fakeCRDs struct {
	*fakeAPI
	mu struct {
		sync.Mutex
		asked   map[string]int    // by collection
		leaving map[string]int    // by name of definition
		bodies  map[string][]byte // by path
	}
}

func newFakeCRDs(t *testing.T) (*fakeCRDs, *rest.Config) {
	core, _ := newFakeAPI(t)
	f := &fakeCRDs{fakeAPI: core}
	f.mu.asked, f.mu.leaving, f.mu.bodies = map[string]int{}, map[string]int{}, map[string][]byte{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, &rest.Config{Host: server.URL}
}

func (f *fakeCRDs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if !strings.HasPrefix(r.URL.Path, "/apis/") {
		f.fakeAPI.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var obj metav1.PartialObjectMetadata
	parts := strings.Split(r.URL.Path, "/") // "", apis, group, version, …
	if !strings.HasPrefix(r.URL.Path, crds) && !strings.HasSuffix(parts[2], ".fill.millrace.dev") && parts[2] != "example.org" {
		f.status(w, http.StatusNotFound, "not served")
		return
	}
	collection := parts[2] + "/" + parts[len(parts)-1]
	switch {
	case r.Method == http.MethodPost:
		if r.Header.Get("Content-Type") != runtime.ContentTypeJSON || json.Unmarshal(body, &obj) != nil {
			f.t.Errorf("posted to %s: %s", r.URL.Path, body)
		}
		path := r.URL.Path + "/" + obj.Name
		if r.URL.Path != crds && f.mu.asked[collection] < 2 {
			f.t.Errorf("%s was sent before its definition is served", path)
		}
		if f.mu.bodies[path] != nil {
			f.status(w, http.StatusConflict, "exists")
			return
		}
		f.mu.bodies[path] = body
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete && !strings.HasPrefix(r.URL.Path, crds):
		delete(f.mu.bodies, r.URL.Path)
	case r.Method == http.MethodDelete:
		f.mu.leaving[r.URL.Path] = 1
	case strings.HasPrefix(r.URL.Path, crds+"/"):
		if body := f.mu.bodies[r.URL.Path]; body == nil || json.Unmarshal(body, &obj) != nil {
			f.status(w, http.StatusNotFound, "not there")
			return
		}
		if r.Header.Get("Accept") == runtime.ContentTypeJSON {
			_, _ = w.Write(f.mu.bodies[r.URL.Path])
			return
		}
		obj.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		f.write(w, http.StatusOK, &obj)
	case r.URL.Path == crds:
		f.listLocked(w, "apiextensions.k8s.io/customresourcedefinitions", r.URL.Query().Get("labelSelector"))
	default:
		if f.mu.asked[collection]++; f.mu.asked[collection] < 2 {
			f.status(w, http.StatusNotFound, "not yet")
			return
		}
		f.listLocked(w, collection, r.URL.Query().Get("labelSelector"))
	}
}

// listLocked lists a collection, which is named by its group and its resource.
func (f *fakeCRDs) listLocked(w http.ResponseWriter, collection, selector string) {
	wanted, err := labels.Parse(selector)
	if err != nil {
		f.t.Error(err)
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for path, body := range f.mu.bodies {
		if parts := strings.Split(path, "/"); parts[2]+"/"+parts[len(parts)-2] != collection {
			continue
		}
		if f.mu.leaving[path] > 0 {
			if f.mu.leaving[path]++; f.mu.leaving[path] > 3 {
				delete(f.mu.bodies, path)
				continue
			}
		}
		var obj metav1.PartialObjectMetadata
		if err := json.Unmarshal(body, &obj); err != nil {
			f.t.Error(err)
		}
		if wanted.Matches(labels.Set(obj.Labels)) {
			list.Items = append(list.Items, obj)
		}
	}
	f.write(w, http.StatusOK, list)
}

func (f *fakeCRDs) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.mu.bodies))
}

func TestDefinitionsThroughAPI(t *testing.T) {
	fake, conf := newFakeCRDs(t)
	shape := Shape{Seed: 4, CRDs: 12, Groups: 3, Objects: 30}
	summary := runFill(t, Config{Shape: shape, REST: conf})
	if crds, objects := summary.Kinds[KindCRD], summary.Kinds[KindCustomObject]; crds.Done != 12 || crds.Bytes < 12*12_000 || objects.Done != 30 {
		t.Fatalf("filled %+v", summary)
	}
	obj := mustGenerator(t, shape).CustomObject(13)
	if path := mustGenerator(t, shape).Definition(1).Path("fill-4-00000") + "/" + obj.GetName(); !slices.Contains(fake.paths(), path) {
		t.Errorf("%s is not there: %q", path, fake.paths())
	}
	summary = runFill(t, Config{Shape: shape, REST: conf})
	if got := summary.Total(); got.Done != 0 || got.Skipped != 12+30+2 {
		t.Errorf("the second fill did %+v", summary)
	}
	foreign := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foreign"
	fake.mu.bodies[foreign] = []byte(`{"metadata":{"name":"foreign"}}`)
	summary = runFill(t, Config{Shape: Shape{Seed: 40}, REST: conf, Delete: true})
	if summary.Total().Done != 0 {
		t.Errorf("a fill with another seed deleted %+v, want nothing", summary)
	}
	delete(fake.mu.bodies, foreign)
	summary = runFill(t, Config{Shape: Shape{Seed: 4}, REST: conf, Delete: true})
	left := slices.DeleteFunc(fake.paths(), func(path string) bool { return !strings.Contains(path, "customresourcedefinitions") })
	if len(left) != 0 || summary.Kinds[KindCRD].Done != 12 {
		t.Errorf("left %q, deleted %+v", left, summary)
	}
}

// TestForeignDefinition checks that fill writes no objects of somebody else's definition.
func TestForeignDefinition(t *testing.T) {
	fake, conf := newFakeCRDs(t)
	shape := Shape{Seed: 4, CRDs: 3, Groups: 3, Objects: 6}
	foreign := mustGenerator(t, shape).Definition(1)
	definition := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + foreign.Name()
	fake.mu.bodies[definition] = fmt.Appendf(nil, `{"metadata":{"name":%q}}`, foreign.Name())
	g := mustGenerator(t, shape)
	project := Config{Shape: Shape{Seed: 4, Namespaces: 1}, DefinitionObjects: 12}
	for i := range 3 {
		project.Definitions = append(project.Definitions, g.CRD(i))
	}
	for _, cfg := range []Config{{Shape: shape}, project} {
		cfg.REST = conf
		summary := runFill(t, cfg)
		if objects := summary.Kinds[KindCustomObject]; objects.Done != 4 {
			t.Errorf("filled %+v", summary)
		}
		if len(summary.Notes) != 1 || !strings.Contains(summary.Notes[0], foreign.Name()) {
			t.Errorf("noted %q", summary.Notes)
		}
	}
	for _, path := range fake.paths() {
		if strings.Contains(path, "/"+foreign.Plural+"/") {
			t.Errorf("wrote %s", path)
		}
	}
}

// TestDeleteKeepsObjectsOfOthers checks that a project's definition stays while somebody else
// has objects of it, and that fill's own objects go.
func TestDeleteKeepsObjectsOfOthers(t *testing.T) {
	fake, conf := newFakeCRDs(t)
	var definitions []*apiextv1.CustomResourceDefinition
	for _, plural := range []string{"proxies", "routes"} {
		d := mustGenerator(t, Shape{Seed: 4, CRDs: 1}).CRD(0)
		d.Name, d.Spec.Group, d.Spec.Names.Plural = plural+".example.org", "example.org", plural
		definitions = append(definitions, d)
	}
	runFill(t, Config{Shape: Shape{Seed: 4, Namespaces: 1}, Definitions: definitions, DefinitionObjects: 4, REST: conf})
	theirs := "/apis/example.org/v1/namespaces/fill-4-00000/proxies/theirs"
	fake.mu.bodies[theirs] = []byte(`{"metadata":{"name":"theirs","namespace":"fill-4-00000"}}`)
	summary := runFill(t, Config{Shape: Shape{Seed: 4}, REST: conf, Delete: true})
	if len(summary.Notes) != 1 || !strings.Contains(summary.Notes[0], "proxies.example.org") || strings.Contains(summary.Notes[0], "routes") {
		t.Errorf("noted %q", summary.Notes)
	}
	for _, path := range fake.paths() {
		kept := path == theirs || strings.HasSuffix(path, "/proxies.example.org")
		if !kept && !strings.Contains(path, "/routes/") { // the fake leaves objects of removed definitions
			t.Errorf("%s is left", path)
		}
	}
	if crds := summary.Kinds[KindCRD]; crds.Done != 1 || crds.Skipped != 1 || !slices.Contains(fake.paths(), theirs) {
		t.Errorf("deleted %+v, left %q", crds, fake.paths())
	}
}

func TestDefinitionFlagErrors(t *testing.T) {
	_, conf := newFakeAPI(t)
	for _, c := range []struct {
		cfg     Config
		message string
	}{
		{Config{Shape: Shape{CRDs: 2, Groups: 3}}, "groups is 3"},
		{Config{Shape: Shape{Pods: 1, Objects: 3}}, "give a number of crds too"},
		{Config{Shape: Shape{CRDs: 1, Properties: 2}}, "properties is 2"},
		{Config{Shape: Shape{CRDs: 1, Properties: 9_000}}, "a definition would have"},
		{Config{Shape: Shape{CRDs: -1}}, "crds is -1"},
		{Config{Shape: Shape{CRDs: 1}, Etcd: EtcdConfig{Endpoints: []string{"http://127.0.0.1:1"}}}, "through an API server"},
	} {
		if len(c.cfg.Etcd.Endpoints) == 0 {
			c.cfg.REST = conf
		}
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("got %v, want %q", err, c.message)
		}
	}
}
