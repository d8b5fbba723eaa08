package kube

import (
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/component-base/version"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

// Route is a built-in resource in one API version, as it is installed.
type Route struct {
	// Resource and Kind name it as clients do.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Stored names the storage that its objects are in.
	Stored schema.GroupResource
	// Namespaced resources live in namespaces.
	Namespaced bool
	// Gets, Lists and Watches say which verbs are installed.
	Gets, Lists, Watches bool
	// Serializer knows the resource's media types.
	Serializer runtime.NegotiatedSerializer
	// Convertor converts to served versions, and labels of field selectors.
	Convertor runtime.ObjectConvertor
	// Table prints objects in internal form as Kubernetes' handlers do. It is nil
	// where the rows of a list are not those of its objects one by one.
	Table rest.TableConvertor
	// Warning is what clients of a deprecated version are told, "" for others.
	Warning string
	// RemovedRelease is the version that a deprecated one ends with.
	RemovedRelease string
}

// serializers are those of the servers in chain order.
func serializers() []runtime.NegotiatedSerializer {
	return []runtime.NegotiatedSerializer{aggregatorscheme.Codecs, legacyscheme.Codecs, apiextensionsapiserver.Codecs}
}

func schemes() []*runtime.Scheme {
	return []*runtime.Scheme{aggregatorscheme.Scheme, legacyscheme.Scheme, apiextensionsapiserver.Scheme}
}

// Routes lists what GET, LIST and WATCH are installed for.
func (s *Server) Routes() []Route {
	var routes []Route
	tables := NewTables()
	for i, server := range s.chain() {
		if i >= len(serializers()) {
			break
		}
		byName := map[schema.GroupVersionResource]*Route{}
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			for _, route := range service.Routes() {
				collect(byName, service.RootPath(), route)
			}
		}
		for _, r := range byName {
			r.Stored = storageOf(r.Resource.GroupResource())
			r.Serializer = serializers()[i]
			r.Convertor = schemes()[i]
			r.Table = tables.Of(r.Stored)
			r.setDeprecation(schemes()[i])
			routes = append(routes, *r)
		}
	}
	return routes
}

// collect adds what an installed route says. Subresources are left out.
func collect(byName map[schema.GroupVersionResource]*Route, root string, route restful.Route) {
	action, _ := route.Metadata[endpoints.RouteMetaAction].(string)
	gvk, ok := route.Metadata[endpoints.RouteMetaGVK].(metav1.GroupVersionKind)
	gv, isGroup := groupVersion(root)
	if !ok || !isGroup || route.Method != "GET" {
		return
	}
	path, watches := strings.CutPrefix(strings.TrimPrefix(route.Path, root), "/watch/")
	switch {
	case watches:
		// A kind that can be watched at all has paths of its own for it.
		action, path = "list", "/"+path
	case action != "get" && action != "list":
		return
	}
	path, namespaced := strings.CutPrefix(path, "/namespaces/{namespace}/")
	path, byNamePath := strings.CutSuffix(strings.TrimPrefix(path, "/"), "/{name}")
	if strings.ContainsAny(path, "/{") || !watches && byNamePath != (action == "get") {
		return
	}
	key := gv.WithResource(path)
	r := byName[key]
	if r == nil {
		r = &Route{Resource: key, Kind: schema.GroupVersionKind(gvk)}
		byName[key] = r
	}
	r.Namespaced = r.Namespaced || namespaced
	r.Gets = r.Gets || action == "get"
	r.Lists = r.Lists || action == "list" && !watches
	r.Watches = r.Watches || watches
}

// groupVersion reads "/api/v1" and "/apis/group/version".
func groupVersion(root string) (schema.GroupVersion, bool) {
	parts := strings.Split(strings.Trim(root, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, true
	case len(parts) == 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	}
	return schema.GroupVersion{}, false
}

// storageOf names the storage of a resource: that of its own name but for
// events, which events.k8s.io serves out of the core group's.
func storageOf(gr schema.GroupResource) schema.GroupResource {
	if gr.Group == "events.k8s.io" && gr.Resource == "events" {
		gr.Group = ""
	}
	return gr
}

func (r *Route) setDeprecation(scheme *runtime.Scheme) {
	obj, err := scheme.New(r.Kind)
	if err != nil {
		return
	}
	obj.GetObjectKind().SetGroupVersionKind(r.Kind)
	// As the installer does: a binary that was built without a version is 0.0,
	// for which all that will be deprecated is.
	major, minor, _ := deprecation.MajorMinor(version.Get())
	if !deprecation.IsDeprecated(obj, major, minor) {
		return
	}
	r.Warning = deprecation.WarningMessage(obj)
	r.RemovedRelease = deprecation.RemovedRelease(obj)
}

// UncachedByDefault reports whether Kubernetes keeps a kind out of its watch cache by
// default (kubeapiserver.DefaultWatchCacheSizes).
func UncachedByDefault(gr schema.GroupResource) bool {
	size, listed := kubeapiserver.DefaultWatchCacheSizes()[gr]
	return listed && size == 0
}

// Altered reports, for kinds whose handlers alter some objects on their way
// out, whether they would alter a given one (the Decorator of their registry).
func Altered(gr schema.GroupResource) func(runtime.Object) bool {
	switch gr {
	case schema.GroupResource{Resource: "services"}:
		return func(obj runtime.Object) bool { return serviceIsAltered(obj.(*api.Service)) }
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return func(obj runtime.Object) bool { return claimIsAltered(obj.(*api.PersistentVolumeClaim)) }
	}
	return nil
}

// serviceIsAltered tells services from before cluster IPs and IP families
// became lists, and external names that were stored with a traffic policy.
func serviceIsAltered(s *api.Service) bool {
	if s.Spec.Type == api.ServiceTypeExternalName {
		return s.Spec.InternalTrafficPolicy != nil || s.Spec.ClusterIP != "" || len(s.Spec.ClusterIPs) > 0
	}
	return len(s.Spec.IPFamilies) == 0 || len(s.Spec.ClusterIPs) == 0 || s.Spec.ClusterIPs[0] != s.Spec.ClusterIP
}

// claimIsAltered tells claims with only one of the two names of a data source.
func claimIsAltered(c *api.PersistentVolumeClaim) bool {
	return (c.Spec.DataSource == nil) != (c.Spec.DataSourceRef == nil)
}
