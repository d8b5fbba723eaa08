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

// Services has the list of groups and the document of each group, as the aggregator derives
// them from the APIServices, whether these are available or not. A change makes the
// documents of one group anew; Kubernetes lists and sorts all APIServices for each
// request.
type Services struct {
	serializer runtime.NegotiatedSerializer
	frame      frame
	// ownGroup is the aggregator's group. It comes first in the list and has no APIService.
	ownGroup servedGroup

	mu struct {
		sync.Mutex
		groups map[string]*serviceGroup
		// list is nil after a group has changed.
		list *cachedDocument
	}
}

// service is an APIService, without what discovery does not show.
type service struct {
	name                           string
	gv                             schema.GroupVersion
	groupPriority, versionPriority int32
	proxied                        bool
}

// serviceGroup has the APIServices of a group, and its documents. It is immutable.
type serviceGroup struct {
	services []service
	servedGroup
}

// servedGroup is a group's document, and its fragment in the list.
type servedGroup struct {
	object   metav1.APIGroup
	fragment fragment
	document *cachedDocument
}

func newServices(s runtime.NegotiatedSerializer) (*Services, error) {
	empty := &metav1.APIGroupList{Groups: []metav1.APIGroup{}}
	empty.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "APIGroupList"})
	frame, err := newFrame(empty, 1)
	if err != nil {
		return nil, err
	}
	made := &Services{serializer: s, frame: frame}
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
		object: object, fragment: newFragment(&object), document: &cachedDocument{serializer: s.serializer, handler: http.HandlerFunc(write)},
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
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			s.delete(obj.(*apiregistrationv1.APIService))
		},
	}
}

func (s *Services) set(obj *apiregistrationv1.APIService) {
	row := service{
		name: obj.Name, gv: schema.GroupVersion{Group: obj.Spec.Group, Version: obj.Spec.Version},
		groupPriority: obj.Spec.GroupPriorityMinimum, versionPriority: obj.Spec.VersionPriority, proxied: obj.Spec.Service != nil,
	}
	s.edit(row.gv.Group, func(services []service) []service {
		if slices.Contains(services, row) {
			return services
		}
		return append(without(services, row.name), row)
	})
}

func (s *Services) delete(obj *apiregistrationv1.APIService) {
	s.edit(obj.Spec.Group, func(services []service) []service { return without(services, obj.Name) })
}

// without returns a copy of services without the one of a name.
func without(services []service, name string) []service {
	return slices.DeleteFunc(slices.Clone(services), func(s service) bool { return s.name == name })
}

// edit replaces the services of a group by those that change returns. change must not
// write into its argument.
func (s *Services) edit(group string, change func([]service) []service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var services []service
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
func (s *Services) newServiceGroup(name string, services []service) *serviceGroup {
	slices.SortFunc(services, func(a, b service) int {
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

// first returns the service that determines the position of a group in the list: the one
// of the highest group priority, and of these the first by name.
func (g *serviceGroup) first() service { return slices.MinFunc(g.services, byGroupPriority) }

func byGroupPriority(a, b service) int {
	if a.groupPriority != b.groupPriority {
		return cmp.Compare(b.groupPriority, a.groupPriority)
	}
	return strings.Compare(a.name, b.name)
}

// list returns the list of all groups but the core group. The first caller after a change
// makes it under the lock, without encoding anything.
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
		slices.SortFunc(sorted, func(a, b *serviceGroup) int { return byGroupPriority(a.first(), b.first()) })
		groups := append(make([]servedGroup, 0, len(sorted)+1), s.ownGroup)
		for _, g := range sorted {
			groups = append(groups, g.servedGroup)
		}
		s.mu.list = &cachedDocument{serializer: s.serializer, handler: listHandler{s, groups}}
	}
	return s.mu.list
}

// listHandler writes the list of groups. It joins fragments in the forms that frame.join
// knows, and uses Kubernetes' encoders for others.
type listHandler struct {
	services *Services
	groups   []servedGroup
}

// ServeHTTP implements http.Handler.
func (l listHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s := l.services
	if n, err := negotiate(req, s.serializer, negotiation.DefaultEndpointRestrictions); err == nil && !audited(req) {
		fragments := make([]fragment, len(l.groups))
		for i := range l.groups {
			fragments[i] = l.groups[i].fragment
		}
		if body, err := s.frame.join(n.form, fragments); err == nil && body != nil {
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

func (s *Services) find(group string) *serviceGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.groups[group]
}

// Proxied reports whether another server serves a group version.
func (s *Services) Proxied(gv schema.GroupVersion) bool {
	g := s.find(gv.Group)
	return g != nil && slices.ContainsFunc(g.services, func(s service) bool { return s.proxied && s.gv == gv })
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
