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

// sourcedVersion is a version of a group as one source tells of it.
type sourcedVersion struct {
	source  aggregated.Source
	version string
}

type priority struct{ group, version int }

// defaultPriority is the priority of a version that nobody set one for.
var defaultPriority = priority{group: 1000, version: 15}

// group is what the sources say of a group. It is guarded by the lock of its
// Documents.
type group struct {
	name       string
	versions   map[sourcedVersion]apidiscoveryv2.APIVersionDiscovery
	priorities map[sourcedVersion]priority
	// item is what is made of them, nil if that has to be made anew.
	item *item
}

// item is a group in the aggregated document. It is immutable.
type item struct {
	apidiscoveryv2.APIGroupDiscovery
	priority int
	fragment
}

func newGroup(name string) *group {
	return &group{
		name: name, versions: map[sourcedVersion]apidiscoveryv2.APIVersionDiscovery{}, priorities: map[sourcedVersion]priority{},
	}
}

// add reports whether anything changed.
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

func (g *group) prioritize(source aggregated.Source, version string, p priority) bool {
	key := sourcedVersion{source, version}
	if known, ok := g.priorities[key]; ok && known == p {
		return false
	}
	g.priorities[key] = p
	g.item = nil
	return true
}

// empty groups can be forgotten.
func (g *group) empty() bool { return len(g.versions)+len(g.priorities) == 0 }

// encodedItem returns the item, nil for a group of no versions. Of the sources that
// tell of a version, the least counts.
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
	made.fragment = newFragment(&made.APIGroupDiscovery)
	g.item = made
	return made
}

// priority is the group's priority: the highest that one of the used versions
// brings along. A version that is not there counts as the aggregator's, whose
// number is zero: so it does in Kubernetes, and other servers' ETags follow.
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
