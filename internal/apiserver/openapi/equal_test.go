package openapi_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	protobuf "google.golang.org/protobuf/proto"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// aggregator is the local server of the aggregator, with the spec that Kubernetes' has of
// itself.
func aggregator() builtinResource {
	b := newBuiltin("unused", "unuseds", "Unused")
	b.change = func(s *spec.Swagger) {
		*s = spec.Swagger{SwaggerProps: spec.SwaggerProps{
			Swagger: "2.0", Paths: &spec.Paths{Paths: map[string]spec.PathItem{}},
			Definitions: spec.Definitions{}, Parameters: map[string]spec.Parameter{},
			Info: &spec.Info{InfoProps: spec.InfoProps{Title: "aggregator", Version: "v1"}},
		}}
	}
	return b
}

// pair is Kubernetes' implementation and ours over the same definitions.
type pair struct {
	t        testing.TB
	upstream *upstream
	catalog  *catalog
	ours     http.Handler
	// next is the aggregator to which ours passes requests on.
	next *upstream
}

func newPair(t testing.TB, definitions []*definition, builtins ...builtinResource) *pair {
	t.Helper()
	p := &pair{t: t, upstream: newUpstream(t, definitions, builtins...), catalog: newCatalog(definitions...)}
	locals := append([]builtinResource{aggregator()}, builtins...)
	server := newServer(t, p.catalog, locals...)
	p.next = newUpstream(t, nil)
	p.ours = server.Wrap(p.next)
	return p
}

func roots(t testing.TB, h http.Handler) map[string]string {
	t.Helper()
	var root handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(get(h, "/openapi/v3").Body.Bytes(), &root); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for path, version := range root.Paths {
		paths[path] = version.ServerRelativeURL
	}
	delete(paths, "apis/unused/v1")
	return paths
}

// wrong returns the first difference of all documents, "" if there is none.
func (p *pair) wrong() string {
	want, got := roots(p.t, p.upstream), roots(p.t, p.ours)
	for path := range want {
		if got[path] == "" {
			return "v3: no " + path
		}
	}
	for path, url := range got {
		if want[path] == "" {
			return "v3: too many: " + path
		}
		w, g := get(p.upstream, "/openapi/v3/"+path), get(p.ours, url)
		if g.Code != http.StatusOK {
			return fmt.Sprintf("%s: status %d", url, g.Code)
		}
		if d := difference(w.Body.Bytes(), g.Body.Bytes()); d != "" {
			return path + d
		}
	}
	w, g := get(p.upstream, "/openapi/v2"), get(p.ours, "/openapi/v2")
	if d := difference(w.Body.Bytes(), g.Body.Bytes()); d != "" {
		return "v2" + d
	}
	return ""
}

func TestCorpusIsUpstreams(t *testing.T) {
	p := newPair(t, corpus(t), newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	eventually(t, p.wrong)
}

func TestNoDefinitions(t *testing.T) {
	p := newPair(t, nil, newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	eventually(t, p.wrong)
}

// TestServices adds services to the aggregation layer. One was built with another version
// of Kubernetes, one is without v3, and the group version of one is also that of a custom
// resource.
func TestServices(t *testing.T) {
	p := newPair(t, corpus(t)[:8], newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	old := newBuiltin("metrics.example.com", "loads", "Load")
	old.change = func(s *spec.Swagger) {
		for _, name := range []string{"ObjectMeta", "Status"} {
			schema := s.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1."+name]
			schema.Description = "of an older version"
			s.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1."+name] = schema
		}
	}
	for priority, b := range []builtinResource{old, newBuiltin("cards.example.com", "cards", "Card"), newBuiltin("tools.k8s.io", "hammers", "Hammer")} {
		for _, u := range []*upstream{p.upstream, p.next} {
			u.addService(b.Spec.Group, int32(priority+1), service(t, b, priority != 1))
		}
	}
	eventually(t, func() string {
		w, g := get(p.upstream, "/openapi/v2"), get(p.ours, "/openapi/v2")
		if d := difference(w.Body.Bytes(), g.Body.Bytes()); d != "" {
			return d
		}
		for _, path := range []string{"apis/metrics.example.com/v1", "apis/cards.example.com/v1"} {
			if roots(t, p.ours)[path] == "" {
				return "not in the root: " + path
			}
			w, g := get(p.upstream, "/openapi/v3/"+path), get(p.ours, "/openapi/v3/"+path)
			if d := difference(w.Body.Bytes(), g.Body.Bytes()); d != "" {
				return path + d
			}
		}
		return ""
	})
	if !strings.Contains(get(p.ours, "/openapi/v2").Body.String(), "of an older version") {
		t.Error("the document lacks the services, so this test checks nothing")
	}
}

func service(t *testing.T, b builtinResource, v3 bool) http.Handler {
	t.Helper()
	_, at, err := b.v3Service()
	if err != nil {
		t.Fatal(err)
	}
	if !v3 {
		at = mux.NewPathRecorderMux(b.Name)
	}
	static, err := b.v2()
	if err != nil {
		t.Fatal(err)
	}
	handler.NewOpenAPIService(static).RegisterOpenAPIVersionedService("/openapi/v2", at)
	return at
}

// TestProtobufIsUpstreams compares decoded messages, because Kubernetes writes entries in
// another order.
func TestProtobufIsUpstreams(t *testing.T) {
	p := newPair(t, corpus(t), newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	eventually(t, p.wrong)
	p.compareMessages()
}

// compareMessages compares all documents in protobuf.
func (p *pair) compareMessages() {
	p.t.Helper()
	var want, got openapi_v2.Document
	messages(p, "/openapi/v2", proto, &want, &got)
	for _, d := range []*openapi_v2.Document{&want, &got} {
		slices.SortFunc(d.Paths.Path, func(a, b *openapi_v2.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(d.Definitions.AdditionalProperties, func(a, b *openapi_v2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(d.Parameters.AdditionalProperties, func(a, b *openapi_v2.NamedParameter) int { return strings.Compare(a.Name, b.Name) })
	}
	same(p.t, "v2", &want, &got)
	for path := range roots(p.t, p.upstream) {
		var want, got openapi_v3.Document
		messages(p, "/openapi/v3/"+path, strings.ReplaceAll(proto, "v2", "v3"), &want, &got)
		for _, d := range []*openapi_v3.Document{&want, &got} {
			slices.SortFunc(d.Paths.Path, func(a, b *openapi_v3.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
			slices.SortFunc(d.Components.Schemas.AdditionalProperties, func(a, b *openapi_v3.NamedSchemaOrReference) int { return strings.Compare(a.Name, b.Name) })
		}
		same(p.t, path, &want, &got)
	}
}

func messages(p *pair, path, accept string, want, got protobuf.Message) {
	t := p.t
	t.Helper()
	if err := protobuf.Unmarshal(get(p.upstream, path, "Accept", accept).Body.Bytes(), want); err != nil {
		t.Fatal(err)
	}
	if err := protobuf.Unmarshal(get(p.ours, path, "Accept", accept).Body.Bytes(), got); err != nil {
		t.Fatal(err)
	}
}

// same fails unless two messages are equal. It compares their text to show the first
// difference.
func same(t testing.TB, path string, want, got protobuf.Message) {
	t.Helper()
	if protobuf.Equal(want, got) {
		return
	}
	w, g := strings.Split(prototext.Format(want), "\n"), strings.Split(prototext.Format(got), "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("%s, line %d: want %s\ngot %s", path, i, strings.Join(w[max(0, i-5):i+1], "\n"), strings.Join(g[max(0, i-5):i+1], "\n"))
		}
	}
	t.Fatalf("%s: want %d lines, got %d", path, len(w), len(g))
}

// TestConflicts has definitions with names that built-in resources or other definitions
// have too. It also has built-in schemas that differ from the schemas of the same name that
// custom resources refer to.
func TestConflicts(t *testing.T) {
	kube := newBuiltin("apps", "deployments", "Deployment")
	kube.change = func(s *spec.Swagger) {
		for _, name := range []string{"Status", "ObjectMeta", "DeleteOptions"} {
			name = "io.k8s.apimachinery.pkg.apis.meta.v1." + name
			schema := s.Definitions[name]
			schema.Description = "another"
			s.Definitions[name] = schema
		}
		for name, parameter := range s.Parameters {
			if strings.HasPrefix(name, "pretty-") {
				parameter.Description = "another"
				s.Parameters[name] = parameter
			}
		}
	}
	extensions := newBuiltin("extensions", "definitions", "Definition")
	meeting := []*definition{
		established(newBuiltin("apps", "deployments", "Deployment")),     // path and schema
		established(newBuiltin("apps", "others", "Other")),               // group version only
		established(newBuiltin("extensions", "lists", "DefinitionList")), // a built-in list's schema
		established(newBuiltin("free.example.com", "frees", "Free")),
	}
	p := newPair(t, append(meeting, corpus(t)[:8]...), kube, extensions)
	eventually(t, func() string {
		w, g := get(p.upstream, "/openapi/v2"), get(p.ours, "/openapi/v2")
		return difference(w.Body.Bytes(), g.Body.Bytes())
	})
	if !strings.Contains(get(p.ours, "/openapi/v2").Body.String(), "Status_v2") {
		t.Error("no schema was renamed, so this test checks nothing")
	}
}

func established(b builtinResource) *definition {
	d := b.DeepCopy()
	d.UID, d.Generation = types.UID(d.Name), 1
	d.Status.AcceptedNames = d.Spec.Names
	d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
	}
	return d
}

// TestChanges makes the same random changes to both and compares after every few.
func TestChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := corpus(t)
	p := newPair(t, nil, newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	there := map[int]bool{}
	for range 12 {
		for range 1 + random.IntN(6) {
			i := random.IntN(len(all))
			d := all[i]
			switch {
			case !there[i]:
				p.catalog.put(d)
				p.upstream.create(d)
				there[i] = true
			case random.IntN(3) == 0:
				p.catalog.remove(d.Name)
				p.upstream.remove(d)
				there[i] = false
				d.UID += "x"
			default:
				change(random, d)
				p.catalog.put(d)
				p.upstream.update(d)
			}
		}
		eventually(t, p.wrong)
	}
}

// change alters a definition in a way that is published, or in one that is not.
func change(random *rand.Rand, d *definition) {
	d.Generation++
	v := &d.Spec.Versions[random.IntN(len(d.Spec.Versions))]
	switch random.IntN(4) {
	case 0:
		if v.Schema != nil {
			v.Schema.OpenAPIV3Schema.Description = fmt.Sprint(random.IntN(100))
		}
	case 1:
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	case 2:
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{}}
	case 3:
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
}
