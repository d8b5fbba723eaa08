package discovery

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
)

// builtin are the group versions that Kubernetes serves by itself, with the
// pages that its handlers wrote. It is replaced as a whole when one of them
// changes, which they do while the server is made and never after.
type builtin struct {
	versions        map[schema.GroupVersion]bool
	groups          map[string]bool
	representations sync.Map // of paths, *pages
}

// findBuiltinLocked notes what there is now.
func (d *Documents) findBuiltinLocked() {
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

// serve answers with what next, a handler behind Kubernetes' router, once
// answered. Paths are few: the caller names none but those of known groups.
func (b *builtin) serve(n negotiatedForm, next http.Handler, w http.ResponseWriter, req *http.Request) {
	found, ok := b.representations.Load(req.URL.Path)
	if !ok {
		found, _ = b.representations.LoadOrStore(req.URL.Path, &representations{})
	}
	found.(*representations).serve(n.form, next, w, req)
}

// has reports whether a document is there.
func (b *builtin) has(n negotiatedForm, req *http.Request) bool {
	found, ok := b.representations.Load(req.URL.Path)
	return ok && found.(*representations).has(n.form)
}

// negotiateRouted is negotiate for handlers behind Kubernetes' router.
func negotiateRouted(req *http.Request, s runtime.NegotiatedSerializer, r negotiation.EndpointRestrictions) (negotiatedForm, bool) {
	if !routable(req.Header.Get("Accept"), s) {
		return negotiatedForm{}, false
	}
	n, err := negotiate(req, s, r)
	return n, err == nil
}
