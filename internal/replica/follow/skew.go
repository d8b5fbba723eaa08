package follow

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// maxSkew is how many minor versions older or newer an upstream may be whose objects are sent
// on as they come. Beyond that, the rules of the API that do not depend on types may differ,
// too.
const maxSkew = 3

// verbatimVersion is the version of a built-in resource that is sent on as the upstream
// sends it.
type verbatimVersion struct {
	schema.GroupVersionResource
	namespaced bool
}

// ChooseMode decides how built-in resources are answered, and tells the tier. An upstream's
// etcd has no defaults in its objects, and those of another version are not known here. So
// its API must be the source if its version is another one.
func (p *Policy) ChooseMode(tier *tiermount.ReadTier) {
	skew := p.cfg.Upstream.Skew()
	tier.Skew = &read.Skew{Differs: func() bool { return p.cfg.Upstream.Skew() != 0 }, WatchLists: p.hasWatchLists}
	if skew == 0 {
		return
	}
	p.isVerbatim = p.cfg.Resources != nil && -maxSkew <= skew && skew <= maxSkew
	theirs := p.cfg.Upstream.Version()
	if !p.isVerbatim {
		p.cfg.Logger.Warn("The upstream is of another minor version: reads of built-in resources are passed on to it, and only custom resources are answered here; use a build with the upstream's version, or one at most three minor versions from it without --etcd-servers",
			"upstream", theirs, "builtIn", p.cfg.OwnVersion)
		return
	}
	p.cfg.Logger.Warn("The upstream is of another minor version: built-in resources are answered as it sends them, and tables and metadata are passed on to it; use a build with the upstream's version for these",
		"upstream", theirs, "builtIn", p.cfg.OwnVersion)
	tier.Decorator.Verbatim, tier.Decorator.Protobuf, tier.Verbatim = true, p.cfg.Resources.ProtobufBackend, p.verbatimOf
}

// IsVerbatim reports whether built-in resources are answered as the upstream sends them.
func (p *Policy) IsVerbatim() bool { return p.isVerbatim }

// chooseVersions chooses the version of each built-in resource that is followed: the one
// that the upstream prefers if this program knows it, as most clients do, else the one that
// this program stores.
func (p *Policy) chooseVersions(routes []kube.Route) {
	if !p.isVerbatim {
		return
	}
	p.verbatim = map[schema.GroupResource]verbatimVersion{}
	for _, route := range routes {
		chosen, served := p.cfg.Upstream.Preferred(route.Stored)
		if _, known := p.builtIn[chosen]; !served || !known {
			chosen = p.builtIn[route.Resource]
		}
		if chosen == route.Resource && p.cfg.Upstream.Serves(chosen) {
			p.verbatim[route.Stored] = verbatimVersion{chosen, route.Namespaced}
		}
	}
}

// hasWatchLists reports whether the upstream is known to begin watches with all objects: it
// has done so for definitions, which are always followed.
func (p *Policy) hasWatchLists() bool {
	if !p.isVerbatim {
		return false
	}
	known := p.cfg.Resources.of(Key{GroupResource: definitions}).Surroundings()
	return known != nil && known.InitialEventsEnd != nil
}

// verbatimOf is a ReadTier.Verbatim of package tiermount.
func (p *Policy) verbatimOf(route *kube.Route, format sentobject.Format) *read.Verbatim {
	if p.verbatim[route.Stored].GroupVersionResource != route.Resource {
		return nil
	}
	key := Key{GroupResource: route.Stored, InProtobuf: format == sentobject.Protobuf}
	followed := p.cfg.Resources.of(key)
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
	chosen, ok := p.verbatim[key.GroupResource]
	if !ok || key.InProtobuf && !hasProtobuf(key.GroupResource) {
		return
	}
	r.Version = Version{GroupVersionResource: chosen.GroupVersionResource, Verbatim: true, Protobuf: key.InProtobuf, Namespaced: chosen.namespaced}
	_, _ = p.cfg.Resources.Follow(key, r) // Follow of a read tells why it is not followed
}

// answersBuiltIn reports whether built-in resources are answered here.
func (p *Policy) answersBuiltIn() bool {
	skew := p.cfg.Upstream.Skew()
	if p.isVerbatim {
		return -maxSkew <= skew && skew <= maxSkew
	}
	return skew == 0
}

// Skew is serverreport.ReplicaReport's Skew.
func (p *Policy) Skew() string {
	switch {
	case !p.answersBuiltIn():
		return "version skew: built-in resources are passed on"
	case p.isVerbatim:
		return "version skew: served as the upstream sends it"
	}
	return ""
}
