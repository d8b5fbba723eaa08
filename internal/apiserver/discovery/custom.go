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

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// Custom derives the documents of custom groups from the rows of definitions. It derives
// the documents of a group when a client asks for one, so a change of a row only drops
// them.
type Custom struct {
	serializer runtime.NegotiatedSerializer
	// invalidate is called after each change, without the locks of Custom.
	invalidate func()
	// groups maps the name of a group to its *customGroup. It has no groups without
	// definitions. Reading it takes no lock. mu is held while it changes.
	groups sync.Map

	mu struct {
		sync.Mutex
		// touched has the groups that changed since takeTouched. Names of groups that are gone
		// stay in it until a client asks for the document.
		touched map[string]bool
		// names holds the names in touched.
		names crd.NameArena
		// manager is the argument of SetManager.
		manager aggregated.ResourceManager
		// sent has the versions of each group that were reported to manager.
		sent map[string][]apidiscoveryv2.APIVersionDiscovery
	}
}

// customGroup has the definitions of a group, and what is derived from them.
type customGroup struct {
	// view is nil after a change. It is set under mu, which guards the rows that it is
	// derived from, so the readers that wait for it need no other lock.
	view atomic.Pointer[customView]
	mu   struct {
		sync.Mutex
		// rows has the definitions by name.
		rows map[string]*crd.Definition
	}
}

// customView has the documents of a group. It is immutable except for their
// representations. It has no documents if no version is served.
type customView struct {
	group    *cachedDocument
	versions map[string]*cachedDocument
	// aggregated are the group's versions in the aggregated document.
	aggregated []apidiscoveryv2.APIVersionDiscovery
}

func newCustom(s runtime.NegotiatedSerializer) *Custom {
	c := &Custom{serializer: s, invalidate: func() {}}
	c.mu.touched, c.mu.sent = map[string]bool{}, map[string][]apidiscoveryv2.APIVersionDiscovery{}
	return c
}

// Change reports that a definition is new (before is nil), has changed, or is gone (after
// is nil). The caller must report the changes of one definition in order. Documents show the
// change when Change returns. It waits at most for a reader that derives the documents of the
// group, and for the manager of SetManager.
func (c *Custom) Change(before, after *crd.Definition) {
	row := after
	if after == nil {
		row = before
	}
	manager := c.setRow(row.Group, row.Name, after)
	c.invalidate()
	if manager != nil {
		c.forward(manager, row.Group)
	}
}

// setRow sets a row of a group, or deletes it if row is nil. It returns the manager to
// forward the change to, or nil.
func (c *Custom) setRow(group, name string, row *crd.Definition) aggregated.ResourceManager {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, _ := c.groups.LoadOrStore(group, &customGroup{})
	if rows := found.(*customGroup).setRow(name, row); rows == 0 {
		c.groups.Delete(group)
	}
	if !c.mu.touched[group] {
		c.mu.touched[c.mu.names.Join(group)] = true
	}
	return c.mu.manager
}

// SetManager sets a manager of Kubernetes to which Change forwards each change. It must be
// called before the first change.
func (c *Custom) SetManager(m aggregated.ResourceManager) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.manager = m
}

// forward reports the versions of a group to a manager, and removes versions that are gone.
func (c *Custom) forward(m aggregated.ResourceManager, group string) {
	versions := c.versions(group)
	for _, v := range versions {
		m.AddGroupVersion(group, v)
		m.SetGroupVersionPriority(metav1.GroupVersion{Group: group, Version: v.Version}, customPriority.group, customPriority.version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.mu.sent[group] {
		if !slices.ContainsFunc(versions, func(current apidiscoveryv2.APIVersionDiscovery) bool { return current.Version == v.Version }) {
			m.RemoveGroupVersion(metav1.GroupVersion{Group: group, Version: v.Version})
		}
	}
	if len(versions) == 0 {
		delete(c.mu.sent, group)
		return
	}
	c.mu.sent[group] = versions
}

// setRow sets a row, or deletes it if row is nil. It returns how many rows the group then has.
func (g *customGroup) setRow(name string, row *crd.Definition) int {
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

// takeTouched returns the groups that changed since the last call.
func (c *Custom) takeTouched() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Collect(maps.Keys(c.mu.touched))
	c.mu.touched = map[string]bool{}
	return names
}

// versions returns the versions of a group for the aggregated document.
func (c *Custom) versions(group string) []apidiscoveryv2.APIVersionDiscovery {
	return c.view(group).aggregated
}

// view returns the documents of a group. The first caller after a change derives them.
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

// serve answers for a group, or for one of its versions unless that is "". It returns false
// if the group or the version is not served.
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

// newCachedDocument makes a document with a new handler for each request: handlers write
// into their objects while they encode them.
func (c *Custom) newCachedDocument(handler func() http.Handler) *cachedDocument {
	return &cachedDocument{serializer: c.serializer, handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler().ServeHTTP(w, req)
	})}
}
