package discovery

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscaling "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// servedVersionNames returns the versions that established definitions of a group serve,
// preferred ones first.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func servedVersionNames(rows []*crd.Definition) []string {
	var versions []string
	for _, row := range rows {
		for i := range row.Versions {
			if v := &row.Versions[i]; row.Established && v.Served && !slices.Contains(versions, v.Name) {
				versions = append(versions, v.Name)
			}
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

// apiGroup returns the document of a group. versions must not be empty; the first is the
// preferred one.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func apiGroup(name string, versions []string) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, v := range versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// servedVersion is a version that a definition serves.
type servedVersion struct {
	row     *crd.Definition
	version *crd.Version
}

func (s servedVersion) namespaced() bool { return s.row.Scope == apiextensionsv1.NamespaceScoped }

// verbs returns the verbs of the resource. While the definition is being deleted, objects
// can only be read and deleted.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func (s servedVersion) verbs() metav1.Verbs {
	if s.row.Terminating {
		return metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	}
	return metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
}

func subresourceVerbs() metav1.Verbs { return metav1.Verbs{"get", "patch", "update"} }

// storageVersionHash returns Kubernetes' hash of the version that objects are stored in. It
// is "" if that version is not served.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func (s servedVersion) storageVersionHash() string {
	for i := range s.row.Versions {
		if v := &s.row.Versions[i]; v.Served && v.Storage {
			return discovery.StorageVersionHash(s.row.Group, v.Name, s.row.Wanted.Kind)
		}
	}
	return ""
}

// definitionsServing returns the definitions that serve a version, sorted by plural name.
func definitionsServing(version string, rows []*crd.Definition) []servedVersion {
	var all []servedVersion
	for _, row := range rows {
		if !row.Established {
			continue
		}
		for i := range row.Versions {
			if v := &row.Versions[i]; v.Served && v.Name == version {
				all = append(all, servedVersion{row, v})
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b servedVersion) int { return cmp.Compare(a.row.Accepted.Plural, b.row.Accepted.Plural) })
	return all
}

// resourceList has the resources in the document of a version.
type resourceList []metav1.APIResource

var _ discovery.APIResourceLister = resourceList{}

// ListAPIResources implements discovery.APIResourceLister.
func (l resourceList) ListAPIResources() []metav1.APIResource { return l }

// apiResources returns the resources of a version sorted by name, each followed by its
// subresources. In Kubernetes their order is random.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func apiResources(gv schema.GroupVersion, rows []*crd.Definition) resourceList {
	list := resourceList{}
	for _, s := range definitionsServing(gv.Version, rows) {
		names := &s.row.Accepted
		list = append(list, metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Namespaced: s.namespaced(), Kind: names.Kind,
			Verbs: s.verbs(), ShortNames: names.ShortNames, Categories: names.Categories, StorageVersionHash: s.storageVersionHash(),
		})
		if s.version.Status {
			list = append(list, metav1.APIResource{
				Name: names.Plural + "/status", Namespaced: s.namespaced(), Kind: names.Kind, Verbs: subresourceVerbs(),
			})
		}
		if s.version.Scale {
			list = append(list, metav1.APIResource{
				Group: autoscaling.GroupName, Version: "v1", Kind: "Scale",
				Name: names.Plural + "/scale", Namespaced: s.namespaced(), Verbs: subresourceVerbs(),
			})
		}
	}
	return list
}

// resourceDiscovery returns the resources of a version for the aggregated document.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync; compare at each upgrade.
func resourceDiscovery(gv schema.GroupVersion, rows []*crd.Definition) []apidiscoveryv2.APIResourceDiscovery {
	var list []apidiscoveryv2.APIResourceDiscovery
	for _, s := range definitionsServing(gv.Version, rows) {
		names := &s.row.Accepted
		kind := metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: names.Kind}
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: names.Plural, SingularResource: names.Singular, Scope: apidiscoveryv2.ScopeCluster, ResponseKind: &kind,
			Verbs: s.verbs(), ShortNames: names.ShortNames, Categories: names.Categories,
		}
		if s.namespaced() {
			resource.Scope = apidiscoveryv2.ScopeNamespace
		}
		if s.version.Status {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: "status", ResponseKind: &kind, Verbs: subresourceVerbs(),
			})
		}
		if s.version.Scale {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: autoscaling.GroupName, Version: "v1", Kind: "Scale"},
				Verbs: subresourceVerbs(),
			})
		}
		list = append(list, resource)
	}
	return list
}
