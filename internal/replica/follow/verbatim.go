package follow

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// verbatimVersion is the version of a built-in resource that is sent on as the upstream
// sends it.
type verbatimVersion struct {
	schema.GroupVersionResource
	namespaced bool
}

// chooseVersions chooses the version in which each built-in resource is followed. It is the one
// that the upstream prefers, as most clients do, if this program knows it. Else it is the one
// that this program stores.
func (p *Policy) chooseVersions(routes []kube.Route) {
	if p.mode != verbatim {
		return
	}
	p.verbatimVersions = map[schema.GroupResource]verbatimVersion{}
	for _, route := range routes {
		chosen, served := p.cfg.Upstream.PreferredVersion(route.Stored)
		if _, known := p.builtIn[chosen]; !served || !known {
			chosen = p.builtIn[route.Resource]
		}
		if chosen == route.Resource && p.cfg.Upstream.Serves(chosen) {
			p.verbatimVersions[route.Stored] = verbatimVersion{chosen, route.Namespaced}
		}
	}
}

// hasWatchLists reports whether the upstream is known to begin watches with all objects: it
// has done so for definitions, which are always followed.
func (p *Policy) hasWatchLists() bool {
	if p.mode != verbatim {
		return false
	}
	known := p.cfg.Resources.lookup(Key{GroupResource: definitions}).Surroundings()
	return known != nil && known.InitialEventsEnd != nil
}

// verbatimOf implements ReadTier.Verbatim of package tiermount.
func (p *Policy) verbatimOf(route *kube.Route, format sentobject.Format) *read.Verbatim {
	if p.verbatimVersions[route.Stored].GroupVersionResource != route.Resource {
		return nil
	}
	key := Key{GroupResource: route.Stored, InProtobuf: format == sentobject.Protobuf}
	followed := p.cfg.Resources.lookup(key)
	if followed == nil {
		return nil
	}
	return &read.Verbatim{
		Format: format, Surroundings: followed.Surroundings,
		Follow: func() { p.followVerbatim(key, Request{Named: p.names(key.GroupResource)}) },
	}
}

// followVerbatim follows a resource in one form. It does nothing if the form is not answered as
// it is sent.
func (p *Policy) followVerbatim(key Key, r Request) {
	chosen, ok := p.verbatimVersions[key.GroupResource]
	if !ok || key.InProtobuf && !hasProtobuf(key.GroupResource) {
		return
	}
	r.Version = Version{GroupVersionResource: chosen.GroupVersionResource, Verbatim: true, Protobuf: key.InProtobuf, Namespaced: chosen.namespaced}
	_, _ = p.cfg.Resources.Follow(key, r) // Follow of a read tells why it is not followed
}
