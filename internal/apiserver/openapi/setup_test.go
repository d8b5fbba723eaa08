package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi"
)

type definition = apiextensionsv1.CustomResourceDefinition

// corpus returns the definitions of testdata.
func corpus(t testing.TB) []*definition {
	t.Helper()
	data, err := os.ReadFile("testdata/definitions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*definition
	for _, text := range strings.Split(string(data), "\n---\n") {
		d := &definition{}
		if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
			t.Fatal(err)
		}
		d.UID, d.Generation = types.UID(d.Name), 1
		all = append(all, d)
	}
	return all
}

// catalog has encoded definitions, as a store would.
type catalog struct {
	mu       sync.Mutex
	revision int64
	rows     map[string]*crd.Definition
	encoded  map[string][]byte
	follow   []func(before, after *crd.Definition)
	// decoded counts the calls of Full by name.
	decoded map[string]int
}

func newCatalog(definitions ...*definition) *catalog {
	c := &catalog{rows: map[string]*crd.Definition{}, encoded: map[string][]byte{}, decoded: map[string]int{}}
	for _, d := range definitions {
		c.put(d)
	}
	return c
}

// put stores a definition and calls the handlers.
func (c *catalog) put(d *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	d = d.DeepCopy()
	d.ResourceVersion = fmt.Sprint(c.revision)
	before := c.rows[d.Name]
	c.rows[d.Name], c.encoded[d.Name] = row(d, c.revision), stored(d)
	for _, f := range c.follow {
		f(before, c.rows[d.Name])
	}
}

// storedAs is an annotation with the version in which a definition is stored. The default
// is v1beta1.
const storedAs = "stored-as"

// stored encodes a definition as Kubernetes stores it.
func stored(d *definition) []byte {
	version := apiextensionsv1beta1.SchemeGroupVersion
	if d.Annotations[storedAs] != "" {
		version.Version = d.Annotations[storedAs]
	}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsapiserver.Scheme.Convert(d, internal, nil); err != nil {
		panic(err)
	}
	encoded, err := runtime.Encode(apiextensionsapiserver.Codecs.LegacyCodec(version), internal)
	if err != nil {
		panic(err)
	}
	return encoded
}

func (c *catalog) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rows[name]
	delete(c.rows, name)
	delete(c.encoded, name)
	for _, f := range c.follow {
		f(before, nil)
	}
}

func row(d *definition, revision int64) *crd.Definition {
	out := &crd.Definition{
		Name: d.Name, UID: d.UID, Revision: revision, Group: d.Spec.Group, Scope: d.Spec.Scope,
		Wanted: d.Spec.Names, Accepted: d.Status.AcceptedNames, Spec: hash(d.Spec),
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			out.Established = true
		}
	}
	for _, v := range d.Spec.Versions {
		version := crd.Version{Name: v.Name, Served: v.Served, Storage: v.Storage, Content: hash(v)}
		if v.Subresources != nil {
			version.Status, version.Scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
		}
		for _, f := range v.SelectableFields {
			version.SelectableFields = append(version.SelectableFields, f.JSONPath)
		}
		out.Versions = append(out.Versions, version)
	}
	return out
}

func hash(v any) uint64 {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	h := fnv.New64a()
	_, _ = h.Write(encoded)
	return h.Sum64()
}

func (c *catalog) All() []*crd.Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*crd.Definition
	for _, d := range c.rows {
		all = append(all, d)
	}
	return all
}

func (c *catalog) FullOf(d *crd.Definition) (*definition, error) {
	c.mu.Lock()
	c.decoded[d.Name]++
	c.mu.Unlock()
	out := &definition{}
	return out, c.StoredOf(d, func(encoded []byte) error {
		internal, err := runtime.Decode(apiextensionsapiserver.Codecs.UniversalDecoder(), encoded)
		if err != nil {
			return err
		}
		return apiextensionsapiserver.Scheme.Convert(internal, out, nil)
	})
}

// StoredOf remembers no states that were replaced.
func (c *catalog) StoredOf(d *crd.Definition, use func(stored []byte) error) error {
	c.mu.Lock()
	encoded, row := c.encoded[d.Name], c.rows[d.Name]
	c.mu.Unlock()
	if encoded == nil || row.Spec != d.Spec {
		return crd.ErrChanged
	}
	return use(encoded)
}

func (c *catalog) AddHandler(f func(before, after *crd.Definition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.rows {
		f(nil, d)
	}
	c.follow = append(c.follow, f)
}

// builtinResource stands for the resources of a local server. Its specs are those of a
// definition.
type builtinResource struct {
	*definition
	// change alters the v2 spec.
	change func(*spec.Swagger)
}

func newBuiltin(group, plural, kind string) builtinResource {
	object := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object"}}}
	return builtinResource{definition: &definition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &object},
			}},
		},
	}}
}

func (b builtinResource) v2() (*spec.Swagger, error) {
	built, err := builder.BuildOpenAPIV2(b.definition, "v1", builder.Options{V2: true})
	if err != nil {
		return nil, err
	}
	built.Definitions = handler.PruneDefaults(built.Definitions)
	built.Info = &spec.Info{InfoProps: spec.InfoProps{Title: b.Name, Version: "v1"}}
	if b.change != nil {
		b.change(built)
	}
	return built, nil
}

func (b builtinResource) v3Service() (*handler3.OpenAPIService, *mux.PathRecorderMux, error) {
	built, err := builder.BuildOpenAPIV3(b.definition, "v1", builder.Options{})
	if err != nil {
		return nil, nil, err
	}
	service, at := handler3.NewOpenAPIService(), mux.NewPathRecorderMux(b.Name)
	if err := service.RegisterOpenAPIV3VersionedService("/openapi/v3", at); err != nil {
		return nil, nil, err
	}
	service.UpdateGroupVersion("apis/"+b.Spec.Group+"/v1", built)
	return service, at, nil
}

func (b builtinResource) v3() (http.Handler, error) {
	_, at, err := b.v3Service()
	return at, err
}

func (b builtinResource) local() openapi.Local { return openapi.Local{V2: b.v2, V3: b.v3} }

// newServer returns our server over a catalog.
func newServer(t testing.TB, c openapi.Catalog, builtins ...builtinResource) *openapi.Server {
	t.Helper()
	var locals []openapi.Local
	for _, b := range builtins {
		locals = append(locals, b.local())
	}
	server, err := openapi.New(openapi.Config{Catalog: c, Version: "test", Locals: func() []openapi.Local { return locals }})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// get sends a request to a handler.
func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// exactly decodes JSON and keeps numbers as they are written.
func exactly(text []byte, into *any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// difference returns the first difference of two JSON documents, "" if there is none.
func difference(want, got []byte) string {
	var w, g any
	if err := exactly(want, &w); err != nil {
		return fmt.Sprintf("wanted document: %v: %.200q", err, want)
	}
	if err := exactly(got, &g); err != nil {
		return fmt.Sprintf("document: %v: %.200q", err, got)
	}
	if n := duplicateKeys(got); n != "" {
		return "key twice: " + n
	}
	return differs("", w, g)
}

func differs(at string, want, got any) string {
	w, wOK := want.(map[string]any)
	g, gOK := got.(map[string]any)
	if !wOK || !gOK {
		if reflect.DeepEqual(want, got) {
			return ""
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		return fmt.Sprintf("%s: want %.600s\ngot %.600s", at, a, b)
	}
	for key := range w {
		if _, ok := g[key]; !ok {
			return fmt.Sprintf("%s: no %s", at, key)
		}
	}
	for key := range g {
		if _, ok := w[key]; !ok {
			return fmt.Sprintf("%s: %s too many", at, key)
		}
		if d := differs(at+"["+key+"]", w[key], g[key]); d != "" {
			return d
		}
	}
	return ""
}

// duplicateKeys returns a key that an object has twice. Decoding would hide it.
func duplicateKeys(document []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(document))
	var read func() string
	read = func() string {
		token, err := decoder.Token()
		if err != nil {
			return err.Error()
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return ""
		}
		seen := map[string]bool{}
		for decoder.More() {
			if delim == '{' {
				token, err := decoder.Token()
				if err != nil {
					return err.Error()
				}
				if seen[token.(string)] {
					return token.(string)
				}
				seen[token.(string)] = true
			}
			if found := read(); found != "" {
				return found
			}
		}
		_, _ = decoder.Token()
		return ""
	}
	return read()
}
