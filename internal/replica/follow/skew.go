package follow

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/source"
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

// chooseMode decides how built-in resources are answered, and tells the tier. An upstream's
// etcd has no defaults in its objects, and those of another version are not known here. So
// its API must be the source if its version is another one.
func (r *Replica) chooseMode(tier *tiermount.ReadTier) {
	skew := r.upstream.Skew()
	tier.Skew = &read.Skew{Differs: func() bool { return r.upstream.Skew() != 0 }, WatchLists: r.hasWatchLists}
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
	r.logger.Warn("The upstream is of another minor version: built-in resources are answered as it sends them, and tables and metadata are passed on to it; use a build with the upstream's version for these",
		"upstream", theirs, "builtIn", own)
	tier.Decorator.Verbatim, tier.Decorator.Protobuf, tier.Verbatim = true, r.api.ProtobufBackend, r.verbatimOf
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

// hasWatchLists reports whether the upstream is known to begin watches with all objects: it
// has done so for definitions, which are always followed.
func (r *Replica) hasWatchLists() bool {
	if !r.isVerbatim {
		return false
	}
	feed := r.api.FeedOf(definitions)
	if feed == nil {
		return false
	}
	known := feed.Load().Surroundings()
	return known != nil && known.InitialEventsEnd != nil
}

// verbatimOf is a ReadTier.Verbatim of package tiermount.
func (r *Replica) verbatimOf(route *kube.Route, format sentobject.Format) *read.Verbatim {
	if r.verbatim[route.Stored].GroupVersionResource != route.Resource {
		return nil
	}
	key := source.FeedKey{GroupResource: route.Stored, InProtobuf: format == sentobject.Protobuf}
	feed := r.api.VerbatimFeed(key)
	if feed == nil {
		return nil
	}
	return &read.Verbatim{
		Format: format,
		Surroundings: func() *apifeed.Surroundings {
			if started := feed.Load(); started != nil {
				return started.Surroundings()
			}
			return nil
		},
		Follow: func() {
			if feed.Load() == nil {
				r.followVerbatim(key, false)
			}
		},
	}
}

// followVerbatim follows a resource in one format. It does nothing if the format is not
// answered as it is sent.
func (r *Replica) followVerbatim(key source.FeedKey, optional bool) {
	chosen, ok := r.verbatim[key.GroupResource]
	if !ok || key.InProtobuf && !source.HasProtobuf(key.GroupResource) {
		return
	}
	r.api.Follow(key.GroupResource, source.FollowedVersion{
		GroupVersionResource: chosen.GroupVersionResource, Verbatim: true, Protobuf: key.InProtobuf, Namespaced: chosen.namespaced, Optional: optional,
	})
}

// answersBuiltIn reports whether built-in resources are answered here. JSON that was read
// before the upstream's version changed is not what it sends now.
func (r *Replica) answersBuiltIn() bool {
	if r.isVerbatim {
		return !r.upstream.MinorChanged()
	}
	return r.upstream.Skew() == 0
}

// skew is serverreport.ReplicaReport's Skew.
func (r *Replica) skew() string {
	switch {
	case !r.answersBuiltIn():
		return "version skew: built-in resources are passed on"
	case r.isVerbatim:
		return "version skew: served as the upstream sends it"
	}
	return ""
}
