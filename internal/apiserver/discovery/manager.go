package discovery

import (
	"maps"
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// manager is the aggregated.ResourceManager of one source, over Documents.
type manager struct {
	documents *Documents
	source    aggregated.Source
}

var _ aggregated.ResourceManager = manager{}

// AddGroupVersion implements aggregated.ResourceManager. It invalidates the document only if
// the version is new or differs.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.AddGroupVersion; compare at each upgrade.
func (m manager) AddGroupVersion(name string, value apidiscoveryv2.APIVersionDiscovery) {
	m.edit(name, func(g *group) bool { return g.add(m.source, value) })
}

// SetGroupVersionPriority implements aggregated.ResourceManager.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.SetGroupVersionPriority; compare at each upgrade.
func (m manager) SetGroupVersionPriority(gv metav1.GroupVersion, groupPriority, versionPriority int) {
	m.edit(gv.Group, func(g *group) bool {
		return g.prioritize(m.source, gv.Version, priority{group: groupPriority, version: versionPriority})
	})
}

// RemoveGroup implements aggregated.ResourceManager. Unlike Kubernetes' manager, it calls the
// invalidation callback.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.RemoveGroup; compare at each upgrade.
func (m manager) RemoveGroup(name string) {
	m.edit(name, func(g *group) bool { return g.removeAll(m.source) })
}

// RemoveGroupVersion implements aggregated.ResourceManager.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.RemoveGroupVersion; compare at each upgrade.
func (m manager) RemoveGroupVersion(gv metav1.GroupVersion) {
	m.edit(gv.Group, func(g *group) bool { return g.remove(m.source, gv.Version) })
}

// edit changes a group, and invalidates the document if change returns true.
func (m manager) edit(name string, change func(*group) bool) {
	d := m.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groupLocked(name)
	changed := change(g)
	d.dropIfEmptyLocked(g)
	if changed {
		m.invalidateLocked()
	}
}

func (m manager) invalidateLocked() {
	if m.source == aggregated.BuiltinSource {
		m.documents.updateBuiltinLocked()
	}
	m.documents.invalidate()
}

// SetGroups implements aggregated.ResourceManager. As in Kubernetes it removes the versions
// of all sources, and the priorities of all versions that this source does not have
// afterwards.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.SetGroups; compare at each upgrade.
func (m manager) SetGroups(groups []apidiscoveryv2.APIGroupDiscovery) {
	d := m.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.mu.groups {
		clear(g.versions)
		g.item = nil
	}
	for i := range groups {
		for _, v := range groups[i].Versions {
			d.groupLocked(groups[i].Name).add(m.source, v)
		}
	}
	for _, g := range d.mu.groups {
		maps.DeleteFunc(g.priorities, func(key sourcedVersion, _ priority) bool {
			_, ok := g.versions[sourcedVersion{m.source, key.version}]
			return !ok
		})
		d.dropIfEmptyLocked(g)
	}
	d.updateBuiltinLocked()
	d.invalidate()
}

// WithSource implements aggregated.ResourceManager.
func (m manager) WithSource(source aggregated.Source) aggregated.ResourceManager {
	return manager{documents: m.documents, source: source}
}

// AddInvalidationCallback implements aggregated.ResourceManager. A callback replaces the
// one before. It may be called with locks held and concurrently, and must not call the manager.
func (m manager) AddInvalidationCallback(callback func()) { m.documents.callback.Store(&callback) }

// ServeHTTP implements http.Handler.
func (m manager) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	m.documents.instrument(w, req)
}
