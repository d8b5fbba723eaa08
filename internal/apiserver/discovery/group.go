package discovery

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// sourcedVersion identifies a version of a group as one source describes it.
type sourcedVersion struct {
	source  aggregated.Source
	version string
}

// priority orders groups, and the versions of a group. Higher ones come first.
type priority struct{ group, version int }

// defaultPriority is the priority of a version until its source sets one.
var defaultPriority = priority{group: 1000, version: 15}

// group is a group as all sources describe it. Documents.mu guards it.
type group struct {
	name       string
	versions   map[sourcedVersion]apidiscoveryv2.APIVersionDiscovery
	priorities map[sourcedVersion]priority
	// item is made of versions and priorities when it is needed. It is nil after they have
	// changed, and for a group without versions.
	item *item
}

// item is a group in the aggregated document. It is immutable.
type item struct {
	apidiscoveryv2.APIGroupDiscovery
	priority int
	encodedItem
}

func newGroup(name string) *group {
	return &group{
		name: name, versions: map[sourcedVersion]apidiscoveryv2.APIVersionDiscovery{}, priorities: map[sourcedVersion]priority{},
	}
}

// add sets the version of a source, and reports whether that changed anything.
func (g *group) add(source aggregated.Source, v apidiscoveryv2.APIVersionDiscovery) bool {
	key := sourcedVersion{source, v.Version}
	known, ok := g.versions[key]
	if ok && reflect.DeepEqual(known, v) {
		return false
	}
	g.versions[key] = v
	if _, ok := g.priorities[key]; !ok {
		g.priorities[key] = defaultPriority
	}
	g.item = nil
	return true
}

// remove removes the version of a source, and reports whether that changed anything.
func (g *group) remove(source aggregated.Source, version string) bool {
	key := sourcedVersion{source, version}
	if _, ok := g.versions[key]; !ok {
		return false
	}
	delete(g.versions, key)
	delete(g.priorities, key)
	g.item = nil
	return true
}

// removeAll removes all versions of a source, and reports whether that changed anything.
func (g *group) removeAll(source aggregated.Source) bool {
	before := len(g.versions) + len(g.priorities)
	maps.DeleteFunc(g.versions, func(k sourcedVersion, _ apidiscoveryv2.APIVersionDiscovery) bool { return k.source == source })
	maps.DeleteFunc(g.priorities, func(k sourcedVersion, _ priority) bool { return k.source == source })
	if len(g.versions)+len(g.priorities) == before {
		return false
	}
	g.item = nil
	return true
}

// prioritize sets the priority of a version, which need not exist yet, and reports whether
// that changed anything.
func (g *group) prioritize(source aggregated.Source, version string, p priority) bool {
	key := sourcedVersion{source, version}
	if known, ok := g.priorities[key]; ok && known == p {
		return false
	}
	g.priorities[key] = p
	g.item = nil
	return true
}

// empty reports whether no source says anything about the group.
func (g *group) empty() bool { return len(g.versions)+len(g.priorities) == 0 }

// encodedItem returns the item, or nil for a group without versions. If several sources
// describe a version, the source with the lowest number counts.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.calculateAPIGroupsLocked; compare at each upgrade.
func (g *group) encodedItem() *item {
	if g.item != nil || len(g.versions) == 0 {
		return g.item
	}
	used := map[string]aggregated.Source{}
	for key := range g.versions {
		if least, seen := used[key.version]; !seen || key.source < least {
			used[key.version] = key.source
		}
	}
	made := &item{priority: g.priority(used)}
	made.ObjectMeta = metav1.ObjectMeta{Name: g.name}
	for name, source := range used {
		made.Versions = append(made.Versions, g.versions[sourcedVersion{source, name}])
	}
	slices.SortFunc(made.Versions, func(a, b apidiscoveryv2.APIVersionDiscovery) int {
		first := g.priorities[sourcedVersion{used[a.Version], a.Version}].version
		second := g.priorities[sourcedVersion{used[b.Version], b.Version}].version
		if first != second {
			return cmp.Compare(second, first)
		}
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	made.encodedItem = newEncodedItem(&made.APIGroupDiscovery)
	g.item = made
	return made
}

// priority returns the group's priority: the highest group priority of the versions that
// are used. A version that does not exist counts as one of source zero, the aggregator.
// Kubernetes does the same, and the ETag depends on it.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.calculateAPIGroupsLocked; compare at each upgrade.
func (g *group) priority(used map[string]aggregated.Source) int {
	found, highest := false, 0
	for key, p := range g.priorities {
		if used[key.version] != key.source {
			continue
		}
		if !found || p.group > highest {
			found, highest = true, p.group
		}
	}
	return highest
}
