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
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/version"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

// Route is a built-in resource in one API version, as Kubernetes installs it.
type Route struct {
	// Resource and Kind are the names of the resource in the API.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Stored is the resource whose storage holds its objects.
	Stored schema.GroupResource
	// StorageVersion is the version in which these objects are stored. It is empty in a
	// Server's routes, and in a Replica's routes of definitions.
	StorageVersion schema.GroupVersion
	// Namespaced says that its objects belong to namespaces.
	Namespaced bool
	// Gets, Lists and Watches say which verbs are installed.
	Gets, Lists, Watches bool
	// Serializer has the media types of the resource.
	Serializer runtime.NegotiatedSerializer
	// Scheme knows the Go type of the version.
	Scheme *runtime.Scheme
	// Convertor converts objects to served versions, and the labels of field selectors.
	Convertor runtime.ObjectConvertor
	// Table prints objects in internal form, as Kubernetes' handlers do. It is nil if a row
	// depends on more than its object and the object's age (Tables.Of).
	Table rest.TableConvertor
	// Warning is the warning for clients of a deprecated version. It is "" for other
	// versions.
	Warning string
	// RemovedRelease is the release that removes a deprecated version. It is "" for other
	// versions, and if no release is known.
	RemovedRelease string
}

// serializers returns the servers' serializers, in the order of the chain.
func serializers() []runtime.NegotiatedSerializer {
	return []runtime.NegotiatedSerializer{aggregatorscheme.Codecs, legacyscheme.Codecs, apiextensionsapiserver.Codecs}
}

func schemes() []*runtime.Scheme {
	return []*runtime.Scheme{aggregatorscheme.Scheme, legacyscheme.Scheme, apiextensionsapiserver.Scheme}
}

// Routes lists the built-in resources that have GET, LIST or WATCH, in no order.
func (s *Server) Routes() []Route {
	var routes []Route
	for i, server := range s.chain() {
		if i >= len(serializers()) {
			break
		}
		routes = append(routes, installedRoutes(server, serializers()[i], schemes()[i])...)
	}
	return routes
}

// installedRoutes lists the resources with GET, LIST or WATCH that a server has installed.
func installedRoutes(server *genericapiserver.GenericAPIServer, serializer runtime.NegotiatedSerializer, scheme *runtime.Scheme) []Route {
	byName := map[schema.GroupVersionResource]*Route{}
	for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
		for _, route := range service.Routes() {
			collect(byName, service.RootPath(), route)
		}
	}
	var routes []Route
	for _, r := range byName {
		r.complete(serializer, scheme)
		routes = append(routes, *r)
	}
	return routes
}

// complete sets the fields that follow from Resource and Kind.
func (r *Route) complete(serializer runtime.NegotiatedSerializer, scheme *runtime.Scheme) {
	r.Stored = storageOf(r.Resource.GroupResource())
	r.Serializer, r.Scheme, r.Convertor = serializer, scheme, scheme
	r.Table = sharedTables().Of(r.Stored)
	r.setDeprecation(scheme)
}

// collect adds one installed route to byName if it reads a resource. root is the path of its
// group version. Subresources are left out.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
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
		// Each kind that can be watched has the deprecated paths below /watch/.
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

// groupVersion parses "/api/v1" and "/apis/group/version".
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

// storageOf returns the resource whose storage a resource uses: itself, except that
// events.k8s.io serves the events of the core group.
func storageOf(gr schema.GroupResource) schema.GroupResource {
	if gr.Group == "events.k8s.io" && gr.Resource == "events" {
		gr.Group = ""
	}
	return gr
}

// setDeprecation sets Warning and RemovedRelease.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
func (r *Route) setDeprecation(scheme *runtime.Scheme) {
	obj, err := scheme.New(r.Kind)
	if err != nil {
		return
	}
	obj.GetObjectKind().SetGroupVersionKind(r.Kind)
	// As upstream: a binary that was built without a version is version 0.0,
	// and takes each version that will ever be deprecated for deprecated.
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

// Altered returns a function that reports whether Kubernetes' handlers would alter an
// object on its way out. It returns nil for kinds whose registry has no Decorator. If an
// upgrade adds a Decorator to a registry, its kind needs a case here.
func Altered(gr schema.GroupResource) func(runtime.Object) bool {
	switch gr {
	case schema.GroupResource{Resource: "services"}:
		return func(obj runtime.Object) bool { return serviceIsAltered(obj.(*api.Service)) }
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return func(obj runtime.Object) bool { return claimIsAltered(obj.(*api.PersistentVolumeClaim)) }
	}
	return nil
}

// serviceIsAltered recognizes services that were stored before cluster IPs and IP
// families became lists. It also recognizes external names that were stored with a traffic
// policy or a cluster IP.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/service/storage.REST.defaultOnRead; compare at each upgrade.
func serviceIsAltered(s *api.Service) bool {
	if s.Spec.Type == api.ServiceTypeExternalName {
		return s.Spec.InternalTrafficPolicy != nil || s.Spec.ClusterIP != "" || len(s.Spec.ClusterIPs) > 0
	}
	return len(s.Spec.IPFamilies) == 0 || len(s.Spec.ClusterIPs) == 0 || s.Spec.ClusterIPs[0] != s.Spec.ClusterIP
}

// claimIsAltered recognizes claims that have only one of the two fields for a data
// source.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage.REST.defaultOnRead; compare at each upgrade.
func claimIsAltered(c *api.PersistentVolumeClaim) bool {
	return (c.Spec.DataSource == nil) != (c.Spec.DataSourceRef == nil)
}
