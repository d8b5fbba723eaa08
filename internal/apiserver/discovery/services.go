package discovery

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Services has the list of groups and the document of each group. Like the aggregator, it
// derives them from the APIServices, available or not. A change of one APIService rebuilds
// the document of its group, and drops the list. Kubernetes would list and sort all
// APIServices for each request.
type Services struct {
	serializer runtime.NegotiatedSerializer
	envelope   listEnvelope
	// ownGroup is the aggregator's group. It comes first in the list and has no APIService.
	ownGroup servedGroup

	mu struct {
		sync.Mutex
		groups map[string]*serviceGroup
		// list is nil after a group has changed.
		list *cachedDocument
	}
}

// apiService is an APIService, without what discovery does not show.
type apiService struct {
	name                           string
	gv                             schema.GroupVersion
	groupPriority, versionPriority int32
	// proxied says that another server serves the version.
	proxied bool
}

// serviceGroup has the APIServices of a group, and its documents. It is immutable.
type serviceGroup struct {
	services []apiService
	servedGroup
}

// servedGroup is a group's document, and its item in the list.
type servedGroup struct {
	object   metav1.APIGroup
	item     encodedItem
	document *cachedDocument
}

func newServices(s runtime.NegotiatedSerializer) (*Services, error) {
	const groupsField = 1
	empty := &metav1.APIGroupList{Groups: []metav1.APIGroup{}}
	empty.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"})
	envelope, err := newListEnvelope(empty, groupsField)
	if err != nil {
		return nil, err
	}
	made := &Services{serializer: s, envelope: envelope}
	made.ownGroup = made.newServedGroup(apiGroup(apiregistrationv1.GroupName, []string{apiregistrationv1.SchemeGroupVersion.Version}))
	made.mu.groups = map[string]*serviceGroup{}
	return made, nil
}

func (s *Services) newServedGroup(object metav1.APIGroup) servedGroup {
	write := func(w http.ResponseWriter, req *http.Request) {
		copied := object // the encoder writes into it
		s.write(&copied, w, req)
	}
	return servedGroup{
		object: object, item: newEncodedItem(&object), document: &cachedDocument{serializer: s.serializer, handler: http.HandlerFunc(write)},
	}
}

// write answers with an object by Kubernetes' encoders.
func (s *Services) write(obj runtime.Object, w http.ResponseWriter, req *http.Request) {
	responsewriters.WriteObjectNegotiated(s.serializer, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, req, http.StatusOK, obj, false)
}

// Handler returns the handler for the events of an informer of APIServices.
func (s *Services) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.set(obj.(*apiregistrationv1.APIService)) },
		UpdateFunc: func(_, obj any) { s.set(obj.(*apiregistrationv1.APIService)) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			s.delete(obj.(*apiregistrationv1.APIService))
		},
	}
}

// set replaces one APIService of its group, or adds it.
func (s *Services) set(obj *apiregistrationv1.APIService) {
	updated := apiService{
		name: obj.Name, gv: schema.GroupVersion{Group: obj.Spec.Group, Version: obj.Spec.Version},
		groupPriority: obj.Spec.GroupPriorityMinimum, versionPriority: obj.Spec.VersionPriority, proxied: obj.Spec.Service != nil,
	}
	s.edit(updated.gv.Group, func(services []apiService) []apiService {
		if slices.Contains(services, updated) {
			return services
		}
		return append(removeByName(services, updated.name), updated)
	})
}

// delete removes one APIService from its group.
func (s *Services) delete(obj *apiregistrationv1.APIService) {
	s.edit(obj.Spec.Group, func(services []apiService) []apiService { return removeByName(services, obj.Name) })
}

// removeByName returns a copy of services that lacks the services of a name.
func removeByName(services []apiService, name string) []apiService {
	return slices.DeleteFunc(slices.Clone(services), func(s apiService) bool { return s.name == name })
}

// edit replaces the services of a group by the services that change returns. change must
// not write into its argument.
func (s *Services) edit(group string, change func([]apiService) []apiService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []apiService
	if known := s.mu.groups[group]; known != nil {
		services = known.services
	}
	next := change(services)
	if slices.Equal(next, services) {
		return
	}
	s.mu.list = nil
	if len(next) == 0 {
		delete(s.mu.groups, group)
		return
	}
	s.mu.groups[group] = s.newServiceGroup(group, next)
}

// newServiceGroup makes the documents of a group. It sorts services as Kubernetes does.
//
// Upstream: k8s.io/kube-aggregator/pkg/apiserver.convertToDiscoveryAPIGroup; compare at each upgrade.
func (s *Services) newServiceGroup(name string, services []apiService) *serviceGroup {
	slices.SortFunc(services, func(a, b apiService) int {
		if a.versionPriority != b.versionPriority {
			return cmp.Compare(b.versionPriority, a.versionPriority)
		}
		return version.CompareKubeAwareVersionStrings(b.gv.Version, a.gv.Version)
	})
	versions := make([]string, len(services))
	for i := range services {
		versions[i] = services[i].gv.Version
	}
	return &serviceGroup{services: services, servedGroup: s.newServedGroup(apiGroup(name, versions))}
}

// leadingService returns the APIService that determines the position of a group in the
// list: the first by byGroupPriority.
func (g *serviceGroup) leadingService() apiService {
	return slices.MinFunc(g.services, byGroupPriority)
}

// byGroupPriority orders APIServices by descending group priority, then by name.
func byGroupPriority(a, b apiService) int {
	if a.groupPriority != b.groupPriority {
		return cmp.Compare(b.groupPriority, a.groupPriority)
	}
	return strings.Compare(a.name, b.name)
}

// list returns the document of all groups except the core group, which is served at /api.
// The first caller after a change makes it under the lock, without encoding anything.
//
// Upstream: k8s.io/kube-aggregator/pkg/apiserver.apisHandler.ServeHTTP; compare at each upgrade.
func (s *Services) list() *cachedDocument {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.list == nil {
		sorted := make([]*serviceGroup, 0, len(s.mu.groups))
		for name, g := range s.mu.groups {
			if name != "" {
				sorted = append(sorted, g)
			}
		}
		slices.SortFunc(sorted, func(a, b *serviceGroup) int { return byGroupPriority(a.leadingService(), b.leadingService()) })
		groups := append(make([]servedGroup, 0, len(sorted)+1), s.ownGroup)
		for _, g := range sorted {
			groups = append(groups, g.servedGroup)
		}
		s.mu.list = &cachedDocument{serializer: s.serializer, handler: listHandler{s, groups}}
	}
	return s.mu.list
}

// listHandler writes the list of groups. It joins items in the forms that envelope.join
// knows, and uses Kubernetes' encoders for others.
type listHandler struct {
	services *Services
	groups   []servedGroup
}

// ServeHTTP implements http.Handler.
func (l listHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := l.services
	// The audit log needs the object, so Kubernetes' encoders answer audited requests.
	if n, err := negotiate(req, s.serializer, negotiation.DefaultEndpointRestrictions); err == nil && !audited(req) {
		items := make([]encodedItem, len(l.groups))
		for i := range l.groups {
			items[i] = l.groups[i].item
		}
		if body, err := s.envelope.join(n.form, items); err == nil && body != nil { // nil: join does not know the form
			w.Header().Set("Content-Type", n.contentType())
			_, _ = w.Write(body)
			return
		}
	}
	list := &metav1.APIGroupList{Groups: make([]metav1.APIGroup, len(l.groups))}
	for i := range l.groups {
		list.Groups[i] = l.groups[i].object
	}
	s.write(list, w, req)
}

// find returns a group, or nil.
func (s *Services) find(group string) *serviceGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.groups[group]
}

// Proxied reports whether another server serves a group version.
func (s *Services) Proxied(gv schema.GroupVersion) bool {
	g := s.find(gv.Group)
	return g != nil && slices.ContainsFunc(g.services, func(s apiService) bool { return s.proxied && s.gv == gv })
}

// serveList answers with the list of groups.
func (s *Services) serveList(w http.ResponseWriter, req *http.Request) { s.list().ServeHTTP(w, req) }

// serveGroup answers for a group. It returns false if the group has no APIServices.
//
// Upstream: k8s.io/kube-aggregator/pkg/apiserver.apiGroupHandler.ServeHTTP; compare at each upgrade.
func (s *Services) serveGroup(name string, w http.ResponseWriter, req *http.Request) bool {
	g := s.find(name)
	if g == nil {
		return false
	}
	g.document.ServeHTTP(w, req)
	return true
}
