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
	// turn is held for reading by who needs the definition to stay as it is, and for writing
	// by a change, until the upstream answers by it and all objects are recorded.
	turn sync.RWMutex
	// acknowledged is the highest revision of a write that was acknowledged.
	acknowledged atomic.Int64
	mu           struct {
		sync.Mutex
		// objects are all that there ever were, by UID.
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

// newResource returns a resource that has no definition.
func newResource(names Names) *Resource {
	r := &Resource{Names: names}
	r.mu.objects = map[string]*Life{}
	return r
}

// Now returns the present state of the resource's definition. A built-in resource is always
// served, as v1.
func (r *Resource) Now() Generation {
	if r.Definition == nil {
		return Generation{}
	}
	return r.Definition.Now()
}

// served are the versions in which the upstream itself serves the resource now.
func (r *Resource) served() []string {
	if r.Definition == nil {
		return []string{"v1"}
	}
	now := r.Definition.Now()
	if now.Gone {
		return nil
	}
	return slices.DeleteFunc(now.Served(), func(version string) bool { return version == now.Foreign })
}

// isClusterScoped says whether objects have no namespace now.
func (r *Resource) isClusterScoped() bool {
	return r.Definition != nil && r.Definition.Now().ClusterScoped
}

// truthName is the name of the resource in the truth of etcd.
func (r *Resource) truthName() string { return r.Plural + "." + r.Group }

// truth says where the resource is in etcd.
func (r *Resource) truth() etcdtruth.Resource {
	prefix := "/registry/" + r.Plural + "/"
	if r.Definition != nil {
		prefix = "/registry/" + r.Group + "/" + r.Plural + "/"
	}
	return etcdtruth.Resource{Name: r.truthName(), Prefix: prefix}
}

// Collection returns the path of a collection. Without a namespace it is that of all.
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

// Acknowledged returns the highest revision of a write that was acknowledged.
func (r *Resource) Acknowledged() int64 { return r.acknowledged.Load() }

func (r *Resource) acknowledge(revision int64) {
	for {
		now := r.acknowledged.Load()
		if now >= revision || r.acknowledged.CompareAndSwap(now, revision) {
			return
		}
	}
}
