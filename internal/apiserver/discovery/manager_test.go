package discovery_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/millrace/millrace/internal/apiserver/discovery"
)

const (
	asDiscovery = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	protobuf    = "application/vnd.kubernetes.protobuf"
)

// accepts has Accept headers for the aggregated document. It is not served for some of
// them.
var accepts = []string{
	"application/json" + asDiscovery, protobuf + asDiscovery, "application/yaml" + asDiscovery,
	"application/json" + asDiscovery + ";pretty=1",
	"application/json" + asDiscovery + ",application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
	protobuf + asDiscovery + ",application/json" + asDiscovery + ",application/json",
	"application/json" + asDiscovery + ";profile=nopeer",
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
	"application/json", "", "*/*" + asDiscovery, "application/cbor" + asDiscovery, "application/json;as=APIGroupDiscoveryList",
}

// managerPair has our manager and Kubernetes', which get the same changes.
type managerPair struct {
	ours, theirs aggregated.ResourceManager
	server       *discovery.Server
}

func newManagerPair(t testing.TB) managerPair {
	s := newServer(t)
	return managerPair{ours: s.Manager(), theirs: aggregated.NewResourceManager("apis"), server: s}
}

// decided sends a request to our manager by way of Server.DecideNotModified.
// DecideNotModified must decide the request if and only if the answer is 304.
func (p managerPair) decided(t *testing.T, path string, h http.Header) *httptest.ResponseRecorder {
	t.Helper()
	decided := false
	w := ask(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = p.server.DecideNotModified(req)
		decided = discovery.NotModifiedDecided(req.Context())
		p.ours.ServeHTTP(w, req)
	}), path, h)
	if decided != (w.Code == http.StatusNotModified) {
		t.Errorf("%s %v: status %d, decided: %t", path, h, w.Code, decided)
	}
	return w
}

// apply applies a change to both.
func (p managerPair) apply(source aggregated.Source, change func(aggregated.ResourceManager)) {
	change(p.ours.WithSource(source))
	change(p.theirs.WithSource(source))
}

// agree compares the answers of both, in all forms.
func (p managerPair) agree(t *testing.T) {
	t.Helper()
	for _, accept := range accepts {
		for _, variant := range []struct {
			path   string
			header http.Header
		}{
			{"/apis", http.Header{}},
			{"/apis", http.Header{"Accept-Encoding": {"gzip"}}},
			{"/apis?pretty=1", http.Header{}},
			{"/apis", http.Header{"User-Agent": {"curl/8"}}},
			{"/apis?pretty=0", http.Header{"User-Agent": {"curl/8"}}},
		} {
			h := variant.header
			h.Set("Accept", accept)
			same := func() *httptest.ResponseRecorder {
				theirs := ask(p.theirs, variant.path, h)
				compare(t, fmt.Sprintf("%s %v", variant.path, h), ask(p.ours, variant.path, h), theirs)
				compare(t, fmt.Sprintf("%s %v, decided", variant.path, h), p.decided(t, variant.path, h), theirs)
				return theirs
			}
			if tag := same().Header().Get("ETag"); tag != "" {
				for _, match := range []string{tag, "W/" + tag, tag + "," + tag, `"x"`} {
					h.Set("If-None-Match", match)
					same()
				}
			}
		}
	}
}

// TestManagerAgreesWithKubernetes applies random changes to both managers.
func TestManagerAgreesWithKubernetes(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &sourceChanges{Rand: rand.New(rand.NewPCG(seed, 7))}
			p := newManagerPair(t)
			p.agree(t)
			for range 12 {
				for range 1 + r.IntN(8) {
					source, change := r.next()
					p.apply(source, change)
				}
				p.agree(t)
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// TestNotModifiedStaysDecided changes the document between DecideNotModified and the
// answer, and before DecideNotModified.
func TestNotModifiedStaysDecided(t *testing.T) {
	p := newManagerPair(t)
	h := http.Header{"Accept": {accepts[0]}}
	h.Set("If-None-Match", ask(p.ours, "/apis", h).Header().Get("ETag"))
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	req.Header = h
	for _, change := range []bool{true, false} {
		if asked := p.server.DecideNotModified(req); discovery.NotModifiedDecided(asked.Context()) != change {
			t.Errorf("decided: %t", !change)
		} else if change {
			p.ours.AddGroupVersion("new.example.com", version(metav1.GroupVersion{Group: "new.example.com", Version: "v1"}, 1, 1))
			w := httptest.NewRecorder()
			if p.ours.ServeHTTP(w, asked); w.Code != http.StatusNotModified || w.Header().Get("ETag") != h.Get("If-None-Match") {
				t.Errorf("status %d, %v", w.Code, w.Header())
			}
		}
	}
	for _, req := range []*http.Request{httptest.NewRequest(http.MethodGet, "/api", nil), httptest.NewRequest(http.MethodHead, "/apis", nil)} {
		h.Set("If-None-Match", ask(p.ours, "/apis", http.Header{"Accept": {accepts[0]}}).Header().Get("ETag"))
		if req.Header = h; discovery.NotModifiedDecided(p.server.DecideNotModified(req).Context()) {
			t.Errorf("%s %s is decided", req.Method, req.URL)
		}
	}
}

// sourceChanges makes random changes of sources.
type sourceChanges struct{ *rand.Rand }

func (r *sourceChanges) next() (aggregated.Source, func(aggregated.ResourceManager)) {
	source := []aggregated.Source{aggregated.AggregatorSource, aggregated.BuiltinSource, aggregated.CRDSource}[r.IntN(3)]
	gv := metav1.GroupVersion{Group: fmt.Sprintf("g%d.example.com", r.IntN(12)), Version: versions[r.IntN(len(versions))]}
	switch n := r.IntN(40); {
	case n < 22:
		v := version(gv, r.IntN(3), r.IntN(2))
		return source, func(m aggregated.ResourceManager) { m.AddGroupVersion(gv.Group, v) }
	case n < 30:
		group, version := r.IntN(5)*1000-1000, r.IntN(4)
		return source, func(m aggregated.ResourceManager) { m.SetGroupVersionPriority(gv, group, version) }
	case n < 36:
		return source, func(m aggregated.ResourceManager) { m.RemoveGroupVersion(gv) }
	case n < 39:
		return source, func(m aggregated.ResourceManager) { m.RemoveGroup(gv.Group) }
	}
	groups := []apidiscoveryv2.APIGroupDiscovery{
		{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{version(gv, 1, 0)}},
		{ObjectMeta: metav1.ObjectMeta{Name: "empty"}},
	}
	return source, func(m aggregated.ResourceManager) { m.SetGroups(groups) }
}

var versions = []string{"v1", "v2", "v1beta1", "v1alpha3", "v10", "foo", "bar2"}

// version makes a version with some resources.
func version(gv metav1.GroupVersion, resources, fresh int) apidiscoveryv2.APIVersionDiscovery {
	v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if fresh == 0 {
		v.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	}
	for i := range resources {
		kind := metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: fmt.Sprintf("Kind<%d>&", i)}
		v.Resources = append(v.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: fmt.Sprintf("kinds%d", i), ResponseKind: &kind, Scope: apidiscoveryv2.ScopeNamespace, SingularResource: fmt.Sprintf("kind%d", i),
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}, ShortNames: []string{"k"}, Categories: []string{"all"},
			Subresources: []apidiscoveryv2.APISubresourceDiscovery{{
				Subresource: "status", ResponseKind: &kind, Verbs: []string{"get"}, AcceptedTypes: []metav1.GroupVersionKind{kind},
			}},
		})
	}
	return v
}

// TestManagerAgreesOnLargeDocuments compares documents that are compressed.
func TestManagerAgreesOnLargeDocuments(t *testing.T) {
	p := newManagerPair(t)
	fillManager(p.ours, 200)
	fillManager(p.theirs, 200)
	p.agree(t)
	if w := ask(p.ours, "/apis", http.Header{"Accept": {accepts[0]}, "Accept-Encoding": {"gzip"}}); w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes were not compressed", w.Body.Len())
	}
}

// TestCodings asks for a large document with many Accept-Encoding headers.
func TestCodings(t *testing.T) {
	p := newManagerPair(t)
	fillManager(p.ours, 200)
	for accepted, compressed := range map[string]bool{
		"gzip": true, "GZIP": true, "gzip;q=1.0,deflate;q=0.6,identity;q=0.3": true, "gzip, deflate, br, zstd": true,
		"gzip;q=0": false, "identity;q=1, gzip;q=0": false, "gzip, gzip;q=0": false, "identity, gzip;q=0.5": false,
		"*": false, "x-gzip": false, "notgzip": false, "zstd": false, "": false,
	} {
		header := http.Header{"Accept": {accepts[0]}, "Accept-Encoding": {accepted}}
		coding := ""
		if compressed {
			coding = "gzip"
		}
		if w := ask(p.ours, "/apis", header); w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != coding {
			t.Errorf("%q: status %d, header %v, want %q", accepted, w.Code, w.Header(), coding)
		}
	}
}

// fillManager adds groups with one version each.
func fillManager(m aggregated.ResourceManager, groups int) {
	for i := range groups {
		gv := metav1.GroupVersion{Group: fmt.Sprintf("g%04d.example.com", i), Version: "v1"}
		m.WithSource(aggregated.CRDSource).AddGroupVersion(gv.Group, version(gv, 5, 1))
	}
}

// TestInvalidation checks that changes call the invalidation callback, and nothing else
// does.
func TestInvalidation(t *testing.T) {
	m := newServer(t).Manager()
	calls := 0
	m.AddInvalidationCallback(func() { calls++ })
	gv := metav1.GroupVersion{Group: "apps", Version: "v1"}
	for _, step := range []struct {
		name  string
		do    func()
		calls int
	}{
		{"new version", func() { m.AddGroupVersion("apps", version(gv, 1, 1)) }, 1},
		{"the same version", func() { m.AddGroupVersion("apps", version(gv, 1, 1)) }, 1},
		{"priority", func() { m.SetGroupVersionPriority(gv, 5, 6) }, 2},
		{"the same priority", func() { m.SetGroupVersionPriority(gv, 5, 6) }, 2},
		{"another version", func() { m.AddGroupVersion("apps", version(gv, 2, 1)) }, 3},
		{"remove an unknown group", func() { m.RemoveGroup("batch") }, 3},
		{"remove", func() { m.RemoveGroupVersion(gv) }, 4},
	} {
		if step.do(); calls != step.calls {
			t.Errorf("%s: %d calls so far, want %d", step.name, calls, step.calls)
		}
	}
}
