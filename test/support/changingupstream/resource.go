package changingupstream

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/test/support/etcdtruth"
)

// Resource is a resource whose objects a script writes.
type Resource struct {
	Names
	// Definition is nil for a built-in resource.
	Definition *Definition
	// turn is held for reading while the definition must not change. A change holds it for
	// writing, until the upstream answers by the change and all objects are recorded.
	turn sync.RWMutex
	// acknowledged is the highest revision of an acknowledged write.
	acknowledged atomic.Int64
	mu           struct {
		sync.Mutex
		// objects has the newest object of each name, by namespace, a slash and name.
		objects map[string]*Life
	}
}

// BuiltIn returns the built-in resources whose objects scripts write.
func BuiltIn() []*Resource {
	return []*Resource{
		newResource(Names{Plural: "configmaps", Kind: "ConfigMap"}),
		newResource(Names{Group: "rbac.authorization.k8s.io", Plural: "roles", Kind: "Role"}),
		newResource(Names{Group: "apps", Plural: "statefulsets", Kind: "StatefulSet"}),
	}
}

// newResource returns a resource without a definition.
func newResource(names Names) *Resource {
	r := &Resource{Names: names}
	r.mu.objects = map[string]*Life{}
	return r
}

// Now returns the present generation of the resource's definition. A built-in resource has the
// zero value.
func (r *Resource) Now() Generation {
	if r.Definition == nil {
		return Generation{}
	}
	return r.Definition.Now()
}

// servedVersions returns the versions in which the upstream itself serves the resource now.
func (r *Resource) servedVersions() []string {
	if r.Definition == nil {
		return []string{"v1"}
	}
	now := r.Definition.Now()
	if now.Gone {
		return nil
	}
	return slices.DeleteFunc(now.ServedVersions(), func(version string) bool { return version == now.Foreign })
}

// isClusterScoped reports whether objects have no namespace now.
func (r *Resource) isClusterScoped() bool {
	return r.Definition != nil && r.Definition.Now().ClusterScoped
}

// truthName returns the name of the resource for package etcdtruth.
func (r *Resource) truthName() string { return r.Plural + "." + r.Group }

// truth returns the place of the resource in etcd.
func (r *Resource) truth() etcdtruth.Resource {
	prefix := "/registry/" + r.Plural + "/"
	if r.Definition != nil {
		prefix = "/registry/" + r.Group + "/" + r.Plural + "/"
	}
	return etcdtruth.Resource{Name: r.truthName(), Prefix: prefix}
}

// Collection returns the path of the objects in a namespace, or of all objects for "".
func (r *Resource) Collection(version, namespace string) string {
	path := "/apis/" + r.Group + "/" + version
	if r.Group == "" {
		path = "/api/" + version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Plural
}

// LastAcknowledged returns the highest revision of an acknowledged write.
func (r *Resource) LastAcknowledged() int64 { return r.acknowledged.Load() }

// acknowledge raises the acknowledged revision.
func (r *Resource) acknowledge(revision int64) {
	for {
		now := r.acknowledged.Load()
		if now >= revision || r.acknowledged.CompareAndSwap(now, revision) {
			return
		}
	}
}
