package discovery

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
)

// builtin has the group versions that Kubernetes' servers in this process serve, and the
// recorded answers of their handlers. A change replaces the whole, so that no outdated
// answer stays. Group versions change only while the server is being made.
type builtin struct {
	versions map[schema.GroupVersion]bool
	// groups are the groups of versions.
	groups map[string]bool
	// documents maps a path, a string, to its *representations.
	documents sync.Map
}

// updateBuiltinLocked makes d.builtin anew from d.mu.groups.
func (d *Documents) updateBuiltinLocked() {
	found := &builtin{versions: map[schema.GroupVersion]bool{}, groups: map[string]bool{}}
	for _, g := range d.mu.groups {
		for key := range g.versions {
			if key.source == aggregated.BuiltinSource {
				found.versions[schema.GroupVersion{Group: g.name, Version: key.version}] = true
				found.groups[g.name] = true
			}
		}
	}
	d.builtin.Store(found)
}

// serve answers with a recorded answer of next, a handler to which Kubernetes' router
// leads. The caller must pass paths of known groups only: each path takes memory for good.
func (b *builtin) serve(n negotiatedForm, next http.Handler, w http.ResponseWriter, req *http.Request) {
	found, ok := b.documents.Load(req.URL.Path)
	if !ok {
		found, _ = b.documents.LoadOrStore(req.URL.Path, &representations{})
	}
	found.(*representations).serveRecorded(n.form, next, w, req)
}

// has reports whether the answer to a request is recorded.
func (b *builtin) has(n negotiatedForm, req *http.Request) bool {
	found, ok := b.documents.Load(req.URL.Path)
	return ok && found.(*representations).has(n.form)
}

// negotiateRouted is negotiate for handlers to which Kubernetes' router leads. It returns
// false if the router would not let the request through to its handler.
func negotiateRouted(req *http.Request, s runtime.NegotiatedSerializer, r negotiation.EndpointRestrictions) (negotiatedForm, bool) {
	if !routable(req.Header.Get("Accept"), s) {
		return negotiatedForm{}, false
	}
	n, err := negotiate(req, s, r)
	return n, err == nil
}
