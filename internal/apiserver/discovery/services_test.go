package discovery_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
)

// TestServicesAgreeWithKubernetes changes APIServices at random. It compares our documents
// with documents that Kubernetes' aggregator sorts and encodes.
func TestServicesAgreeWithKubernetes(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			s := newServer(t)
			h, events := s.Wrap(http.NotFoundHandler()), s.Services().Handler()
			all := map[string]*apiregistrationv1.APIService{}
			for range 60 {
				next := apiService(r)
				last := all[next.Name]
				switch {
				case last == nil:
					all[next.Name] = next
					events.OnAdd(next, false)
				case r.IntN(3) > 0:
					all[next.Name] = next
					events.OnUpdate(last, next)
				default:
					delete(all, next.Name)
					var gone any = last
					if r.IntN(2) == 0 {
						gone = cache.DeletedFinalStateUnknown{Key: last.Name, Obj: last}
					}
					events.OnDelete(gone)
				}
				agreeOnServices(t, h, slices.Collect(maps.Values(all)))
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

func agreeOnServices(t *testing.T, h http.Handler, all []*apiregistrationv1.APIService) {
	t.Helper()
	list := &metav1.APIGroupList{Groups: []metav1.APIGroup{own}}
	groups := map[string]*metav1.APIGroup{}
	for _, services := range helper.SortedByGroupAndVersion(all) {
		g := &metav1.APIGroup{Name: services[0].Spec.Group}
		for _, s := range services {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: s.Spec.Group + "/" + s.Spec.Version, Version: s.Spec.Version})
		}
		g.PreferredVersion = g.Versions[0]
		groups[g.Name] = g
		if g.Name != "" {
			list.Groups = append(list.Groups, *g)
		}
	}
	for _, accept := range []string{"application/json", protobuf, "application/yaml", "application/json;pretty=1", "", "*/*", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		header := http.Header{"Accept": {accept}}
		for _, path := range []string{"/apis", "/apis/"} {
			compare(t, path+" "+accept, ask(h, path, header), ask(writtenByKubernetes(list), path, header))
		}
		for name, g := range groups {
			if name != "" {
				compare(t, name+" "+accept, ask(h, "/apis/"+name, header), ask(writtenByKubernetes(g), "/apis/"+name, header))
			}
		}
	}
	if w := ask(h, "/apis/absent.example.com", http.Header{}); w.Code != http.StatusNotFound {
		t.Errorf("a group without services: status %d", w.Code)
	}
}

// writtenByKubernetes returns a handler that answers with an object.
func writtenByKubernetes(obj runtime.Object) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		responsewriters.WriteObjectNegotiated(aggregatorscheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, req, http.StatusOK, obj, false)
	})
}

func apiService(r *rand.Rand) *apiregistrationv1.APIService {
	group, version := fmt.Sprintf("g%d.example.com", r.IntN(8)), versions[r.IntN(len(versions))]
	if r.IntN(20) == 0 {
		group, version = "", "v1"
	}
	s := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + "." + group}}
	s.Spec = apiregistrationv1.APIServiceSpec{
		Group: group, Version: version, GroupPriorityMinimum: 1000 * (1 + r.Int32N(3)), VersionPriority: 1 + r.Int32N(3),
	}
	return s
}

func apiServiceOf(group string) *apiregistrationv1.APIService {
	s := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}}
	s.Spec = apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 100}
	return s
}
