package server

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/apifeed"
	"github.com/millrace/millrace/internal/kube"
)

// maxSkew is how many minor versions older or newer an upstream may be whose JSON is sent on.
// Beyond that, the rules of the API that do not depend on types may differ, too.
const maxSkew = 3

// verbatimVersion is the version of a built-in resource of which the upstream's JSON is sent
// on.
type verbatimVersion struct {
	schema.GroupVersionResource
	namespaced bool
}

// chooseMode decides how built-in resources are answered, and tells the tier. An upstream's
// etcd has no defaults in its objects, and those of another version are not known here. So
// its API must be the source if its version is another one.
func (r *Replica) chooseMode(tier *readTier) {
	skew := r.upstream.Skew()
	if skew == 0 {
		return
	}
	r.isVerbatim = r.api != nil && -maxSkew <= skew && skew <= maxSkew
	own, theirs := r.options.Kube.VersionInfo().GitVersion, r.upstream.Version()
	if !r.isVerbatim {
		r.logger.Warn("The upstream is of another minor version: reads of built-in resources are passed on to it, and only custom resources are answered here; use a build with the upstream's version, or one at most three minor versions from it without --etcd-servers",
			"upstream", theirs, "builtIn", own)
		return
	}
	r.logger.Warn("The upstream is of another minor version: built-in resources are answered with its own JSON, and reads in other forms are passed on to it; use a build with the upstream's version for these",
		"upstream", theirs, "builtIn", own)
	tier.decorator.Verbatim, tier.verbatim = true, r.verbatimSurroundings
}

// chooseVersions chooses the version of each built-in resource that is followed: the one
// that the upstream prefers if this program knows it, as most clients do, else the one that
// this program stores.
func (r *Replica) chooseVersions(routes []kube.Route) {
	if !r.isVerbatim {
		return
	}
	r.verbatim = map[schema.GroupResource]verbatimVersion{}
	for _, route := range routes {
		chosen, served := r.upstream.Preferred(route.Stored)
		if _, known := r.builtIn[chosen]; !served || !known {
			chosen = r.builtIn[route.Resource]
		}
		if chosen == route.Resource && r.upstream.Serves(chosen) {
			r.verbatim[route.Stored] = verbatimVersion{chosen, route.Namespaced}
		}
	}
}

// verbatimSurroundings is a readTier.verbatim.
func (r *Replica) verbatimSurroundings(route *kube.Route) func() *apifeed.Surroundings {
	if r.verbatim[route.Stored].GroupVersionResource != route.Resource {
		return nil
	}
	return r.api.surroundingsOf(route.Stored)
}

// followVerbatim follows a resource if gvr is the version of which the JSON is sent on, and
// reports whether it is.
func (r *Replica) followVerbatim(stored schema.GroupResource, gvr schema.GroupVersionResource, optional bool) bool {
	chosen := r.verbatim[stored]
	if chosen.GroupVersionResource != gvr {
		return false
	}
	r.api.follow(stored, followedVersion{GroupVersionResource: gvr, verbatim: true, namespaced: chosen.namespaced, optional: optional})
	return true
}

// answersBuiltIn reports whether built-in resources are answered here. JSON that was read
// before the upstream's version changed is not what it sends now.
func (r *Replica) answersBuiltIn() bool {
	if r.isVerbatim {
		return !r.upstream.MinorChanged()
	}
	return r.upstream.Skew() == 0
}

// skew is report.ReplicaReport's Skew.
func (r *Replica) skew() string {
	switch {
	case !r.answersBuiltIn():
		return "version skew: built-in resources are passed on"
	case r.isVerbatim:
		return "version skew: served as the upstream's JSON"
	}
	return ""
}

// surroundingsOf returns a read.RouteConfig.Verbatim of a resource.
func (s *apiSource) surroundingsOf(gr schema.GroupResource) func() *apifeed.Surroundings {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.mu.byResource[gr]
	if opened == nil {
		return nil
	}
	follows, ok := opened.feed.(*resourceFeed)
	if !ok {
		return nil
	}
	return func() *apifeed.Surroundings {
		if started := follows.Load(); started != nil {
			return started.Surroundings()
		}
		return nil
	}
}
