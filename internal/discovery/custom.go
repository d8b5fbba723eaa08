package discovery

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/millrace/millrace/internal/crd"
)

// Custom derives the documents of custom groups from the rows of definitions,
// each group's when it is asked for: a change of a row costs nothing but a note.
type Custom struct {
	serializer runtime.NegotiatedSerializer
	// invalidate is told of each change.
	invalidate func()
	// groups have definitions each. They are read without the lock below, and change under it.
	groups sync.Map // of names, *customGroup

	mu struct {
		sync.Mutex
		// touched groups changed since Documents took them last. Nobody may ask for
		// documents for long after all groups are gone.
		touched map[string]bool
		names   crd.NameArena
		// told is nil unless Tell was called, last what it was told.
		manager aggregated.ResourceManager
		sent    map[string][]apidiscoveryv2.APIVersionDiscovery
	}
}

// customGroup are the definitions of a group.
type customGroup struct {
	view atomic.Pointer[customView]
	mu   struct {
		sync.Mutex
		rows map[string]*crd.Definition
	}
}

// customView is what rows say. It is immutable but for the pages.
type customView struct {
	group    *cachedDocument
	versions map[string]*cachedDocument
	// aggregated are the versions in the aggregated document.
	aggregated []apidiscoveryv2.APIVersionDiscovery
}

func newCustom(s runtime.NegotiatedSerializer) *Custom {
	c := &Custom{serializer: s, invalidate: func() {}}
	c.mu.touched, c.mu.sent = map[string]bool{}, map[string][]apidiscoveryv2.APIVersionDiscovery{}
	return c
}

// Change takes a definition that is new (before is nil), another than before, or
// gone (after is nil). Changes of one definition come in order, and the first
// names no before. It never blocks, and has taken effect when it returns.
func (c *Custom) Change(before, after *crd.Definition) {
	row := after
	if after == nil {
		row = before
	}
	told := c.change(row.Group, row.Name, after)
	c.invalidate()
	if told != nil {
		c.forward(told, row.Group)
	}
}

// change changes a row of a group, and returns who is to be told.
func (c *Custom) change(group, name string, row *crd.Definition) aggregated.ResourceManager {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, _ := c.groups.LoadOrStore(group, &customGroup{})
	if left := made.(*customGroup).change(name, row); left == 0 {
		c.groups.Delete(group)
	}
	if !c.mu.touched[group] {
		c.mu.touched[c.mu.names.Join(group)] = true
	}
	return c.mu.manager
}

// SetManager has another manager told of each change, at once: one whose document is
// Kubernetes'. It is called before the first change.
func (c *Custom) SetManager(m aggregated.ResourceManager) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.manager = m
}

func (c *Custom) forward(m aggregated.ResourceManager, group string) {
	versions := c.versions(group)
	for _, v := range versions {
		m.AddGroupVersion(group, v)
		m.SetGroupVersionPriority(metav1.GroupVersion{Group: group, Version: v.Version}, customPriority.group, customPriority.version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.mu.sent[group] {
		if !slices.ContainsFunc(versions, func(now apidiscoveryv2.APIVersionDiscovery) bool { return now.Version == v.Version }) {
			m.RemoveGroupVersion(metav1.GroupVersion{Group: group, Version: v.Version})
		}
	}
	if len(versions) == 0 {
		delete(c.mu.sent, group)
		return
	}
	c.mu.sent[group] = versions
}

// change returns how many rows there are then.
func (g *customGroup) change(name string, row *crd.Definition) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.rows == nil {
		g.mu.rows = map[string]*crd.Definition{}
	}
	if row == nil {
		delete(g.mu.rows, name)
	} else {
		g.mu.rows[name] = row
	}
	g.view.Store(nil)
	return len(g.mu.rows)
}

// takeTouched returns the groups that changed since it was called last.
func (c *Custom) takeTouched() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Collect(maps.Keys(c.mu.touched))
	c.mu.touched = map[string]bool{}
	return names
}

// versions are what the aggregated document says of a group's versions.
func (c *Custom) versions(group string) []apidiscoveryv2.APIVersionDiscovery {
	return c.view(group).aggregated
}

// view returns what the rows of a group say.
func (c *Custom) view(name string) *customView {
	found, ok := c.groups.Load(name)
	if !ok {
		return &customView{}
	}
	g := found.(*customGroup)
	if view := g.view.Load(); view != nil {
		return view
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	view := g.view.Load()
	if view == nil {
		view = c.derive(name, slices.SortedFunc(maps.Values(g.mu.rows), func(a, b *crd.Definition) int { return cmp.Compare(a.Name, b.Name) }))
		g.view.Store(view)
	}
	return view
}

// derive makes the documents of a group out of its definitions.
func (c *Custom) derive(group string, rows []*crd.Definition) *customView {
	versions := servedVersionNames(rows)
	if len(versions) == 0 {
		return &customView{}
	}
	view := &customView{versions: map[string]*cachedDocument{}}
	object := apiGroup(group, versions)
	view.group = c.newCachedDocument(func() http.Handler { return discovery.NewAPIGroupHandler(c.serializer, object) })
	for _, version := range versions {
		gv := schema.GroupVersion{Group: group, Version: version}
		resources := apiResources(gv, rows)
		view.versions[version] = c.newCachedDocument(func() http.Handler { return discovery.NewAPIVersionHandler(c.serializer, gv, resources) })
		view.aggregated = append(view.aggregated, apidiscoveryv2.APIVersionDiscovery{
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: version, Resources: resourceDiscovery(gv, rows),
		})
	}
	return view
}

// serve answers for a group, or for one of its versions if that is not "". It
// reports false if there is none.
func (c *Custom) serve(gv schema.GroupVersion, w http.ResponseWriter, req *http.Request) bool {
	view := c.view(gv.Group)
	found := view.group
	if gv.Version != "" {
		found = view.versions[gv.Version]
	}
	if found == nil {
		return false
	}
	found.ServeHTTP(w, req)
	return true
}

// newCachedDocument has a handler made for each use: while one encodes its object, it
// writes into it.
func (c *Custom) newCachedDocument(handler func() http.Handler) *cachedDocument {
	return &cachedDocument{serializer: c.serializer, handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler().ServeHTTP(w, req)
	})}
}
