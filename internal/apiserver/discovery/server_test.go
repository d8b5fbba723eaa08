package discovery_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// upstreamHandler stands for Kubernetes' handlers, and records the requests that it gets.
type upstreamHandler struct{ requests []string }

func (u *upstreamHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	u.requests = append(u.requests, req.Method+" "+req.URL.Path+" "+req.Header.Get("Accept"))
	w.Header().Set("Content-Type", "application/json")
	if req.URL.Path == "/api" {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public")
	}
	fmt.Fprintf(w, "%s as %s", req.URL.Path, req.Header.Get("Accept"))
}

// TestBuiltinAnswersAreRecorded checks that Kubernetes' handlers write each form once.
func TestBuiltinAnswersAreRecorded(t *testing.T) {
	s, u := newServer(t), &upstreamHandler{}
	h := s.Wrap(u)
	s.Manager().AddGroupVersion("apps", version(metav1.GroupVersion{Group: "apps", Version: "v1"}, 1, 1))
	core := "application/json" + asDiscovery
	for _, c := range []struct{ path, accept, body string }{
		{"/apis/apps/v1", "", "/apis/apps/v1 as application/json"},
		{"/apis/apps/v1", "application/json", "/apis/apps/v1 as application/json"},
		{"/apis/apps/v1", "text/html,*/*", "/apis/apps/v1 as application/json"},
		{"/apis/apps/v1", protobuf, "/apis/apps/v1 as " + protobuf},
		{"/apis/apps/v1", "application/json;pretty=1", "/apis/apps/v1 as application/json;pretty=1"},
		{"/apis/apps", "", "/apis/apps as application/json"},
		{"/api/v1", "", "/api/v1 as application/json"},
		{"/api", core, "/api as " + core},
		{"/api", protobuf + asDiscovery + "," + core, "/api as " + protobuf + asDiscovery},
	} {
		for range 2 {
			if w := ask(h, c.path, http.Header{"Accept": {c.accept}}); w.Code != http.StatusOK || w.Body.String() != c.body {
				t.Errorf("%s %s: status %d, %q, want %q", c.path, c.accept, w.Code, w.Body, c.body)
			}
		}
	}
	if want := 7; len(u.requests) != want {
		t.Errorf("the handler got %d requests, want %d: %q", len(u.requests), want, u.requests)
	}
	if w := ask(h, "/api", http.Header{"Accept": {core}, "If-None-Match": {`"x"`}}); w.Code != http.StatusNotModified || w.Header().Get("ETag") != `"x"` {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}

// TestAnswersWithoutKindAreNotRecorded: Kubernetes' handler of a group may leave out the kind in
// an answer that it writes beside another one.
func TestAnswersWithoutKindAreNotRecorded(t *testing.T) {
	group := &metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: "apps"}
	for mediaType, withKind := range map[string]string{
		"application/json":          `{"kind":"APIGroup","apiVersion":"v1","name":"apps"}`,
		"application/json;pretty=1": "{\n  \"kind\": \"APIGroup\",\n  \"name\": \"apps\"\n}",
		"application/yaml":          "apiVersion: v1\nkind: APIGroup\nname: apps\n",
		protobuf:                    inProtobuf(t, group),
	} {
		without := map[string]string{
			"application/json": `{"name":"apps"}`, "application/json;pretty=1": "{\n  \"name\": \"apps\"\n}", "application/yaml": "name: apps\nversions: []\n",
			protobuf: inProtobuf(t, &metav1.APIGroup{Name: "apps"}),
		}[mediaType]
		answers := []string{without, withKind, withKind, "later"}
		s := newServer(t)
		h := s.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, answers[0])
			answers = answers[1:]
		}))
		s.Manager().AddGroupVersion("apps", version(metav1.GroupVersion{Group: "apps", Version: "v1"}, 1, 1))
		for range 3 {
			if w := ask(h, "/apis/apps", http.Header{"Accept": {mediaType}}); w.Body.String() != withKind {
				t.Errorf("%s: answer %q", mediaType, w.Body)
			}
		}
		if len(answers) != 1 {
			t.Errorf("%s: %d answers are left, want one", mediaType, len(answers))
		}
	}
}

// inProtobuf encodes a group as Kubernetes does, with the kind that it has.
func inProtobuf(t *testing.T, group *metav1.APIGroup) string {
	t.Helper()
	raw, err := group.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: group.APIVersion, Kind: group.Kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(envelope)
}

// TestPassedOn sends requests that are passed on to Kubernetes' handlers each time.
func TestPassedOn(t *testing.T) {
	s, u := newServer(t), &upstreamHandler{}
	h := s.Wrap(u)
	s.Manager().WithSource(aggregated.CRDSource).AddGroupVersion("crd.example.com", version(metav1.GroupVersion{Group: "crd.example.com", Version: "v1"}, 1, 1))
	s.Manager().AddGroupVersion("apps", version(metav1.GroupVersion{Group: "apps", Version: "v1"}, 1, 1))
	s.Manager().AddGroupVersion("apps", version(metav1.GroupVersion{Group: "apps", Version: "v2"}, 1, 1))
	proxied := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v2.apps"}}
	proxied.Spec = apiregistrationv1.APIServiceSpec{Group: "apps", Version: "v2", Service: &apiregistrationv1.ServiceReference{}}
	s.Services().Handler().OnAdd(proxied, true)
	for _, c := range []struct{ path, accept string }{
		{"/apis", "application/json" + asDiscovery},
		{"/api", ""},
		{"/api", "application/json"},
		{"/api", "application/json" + asDiscovery + ";profile=nopeer"},
		{"/api/v2", ""},
		{"/api/", ""},
		{"/apis/apps/v1/", ""},
		{"/apis/apps/v1", "text/html"},
		{"/apis/apps/v1", "application/*"},
		{"/apis/apps/v1", "application/cbor,application/json"},
		{"/apis/apps/v1/deployments", ""},
		{"/apis/apps/v2", ""},
		{"/apis/batch", ""},
		{"/apis/crd.example.com", ""},
		{"/apis/crd.example.com/v1", ""},
		{"/apis//v1", ""},
		{"/apiserver", ""},
		{"/healthz", ""},
	} {
		for n := range 2 {
			u.requests = nil
			if ask(h, c.path, http.Header{"Accept": {c.accept}}); len(u.requests) != 1 {
				t.Errorf("%s %s: attempt %d: the handler got %d requests, want 1", c.path, c.accept, n+1, len(u.requests))
			}
		}
	}
}

// TestAuditedBodies checks that answers whose bodies are logged come from Kubernetes'
// handlers.
func TestAuditedBodies(t *testing.T) {
	s, u := newServer(t), &upstreamHandler{}
	gv := metav1.GroupVersion{Group: "apps", Version: "v1"}
	s.Manager().AddGroupVersion("apps", version(gv, 1, 1))
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := audit.WithAuditContext(req.Context())
		if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}, nil); err != nil {
			t.Fatal(err)
		}
		s.Wrap(u).ServeHTTP(w, req.WithContext(ctx))
	})
	for range 2 {
		ask(h, "/apis/apps/v1", http.Header{})
	}
	if len(u.requests) != 2 {
		t.Errorf("the handler got %d requests, want 2", len(u.requests))
	}
}

// TestChangesAreSeenAtOnce reads documents after each change, while other goroutines read
// all the time.
func TestChangesAreSeenAtOnce(t *testing.T) {
	s := newServer(t)
	h := s.Wrap(http.NotFoundHandler())
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer close(stop)
	for range 4 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, accept := range accepts[:2] {
					ask(s.Manager(), "/apis", http.Header{"Accept": {accept}, "Accept-Encoding": {"gzip"}})
				}
				ask(h, "/apis", http.Header{})
				ask(h, "/apis/g0003.example.com/v1", http.Header{})
			}
		})
	}
	for n := range 300 {
		group, there := fmt.Sprintf("g%04d.example.com", n%10), n%20 < 10
		s.Custom().Change(definition(n%10, !there), definition(n%10, there))
		if there {
			s.Services().Handler().OnAdd(apiServiceOf(group), false)
		} else {
			s.Services().Handler().OnDelete(apiServiceOf(group))
		}
		document := ask(s.Manager(), "/apis", http.Header{"Accept": {accepts[0]}}).Body.String()
		list := ask(h, "/apis", http.Header{}).Body.String()
		version := ask(h, "/apis/"+group+"/v1", http.Header{}).Code == http.StatusOK
		if strings.Contains(document, group) != there || strings.Contains(list, group) != there || version != there {
			t.Fatalf("change %d: %s is to be there: %t, is in the documents: %t, in the list: %t, answers: %t",
				n, group, there, strings.Contains(document, group), strings.Contains(list, group), version)
		}
	}
}
