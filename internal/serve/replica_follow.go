package serve

import (
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/tier/source"
)

// definitions are the definitions of custom resources. The replica always follows them,
// because it needs them to answer for custom resources.
var definitions = apiextensions.Resource("customresourcedefinitions")

// followFromStart follows definitions and the resources that --follow names. It does
// nothing with etcd, whose feed has everything.
func (r *Replica) followFromStart() error {
	if r.api == nil {
		return nil
	}
	named := []schema.GroupResource{definitions}
	for _, name := range r.options.Follow {
		named = append(named, schema.ParseGroupResource(name))
	}
	for _, gr := range named {
		gvr, served := r.upstream.Preferred(gr)
		if !served {
			return fmt.Errorf("the upstream does not serve %s: correct --follow", gr)
		}
		if stored, builtIn := r.builtIn[gvr]; builtIn {
			r.followBuiltIn(gvr, false)
			r.followVerbatim(source.FeedKey{GroupResource: stored.GroupResource()}, false)
			r.followVerbatim(source.FeedKey{GroupResource: stored.GroupResource(), InProtobuf: true}, false)
		}
	}
	r.followKept()
	return nil
}

// followCustom follows the custom resources that --follow names, or that an earlier run has
// followed. Their definitions are known once the replica is ready. What is followed later is
// loaded from the upstream: the sibling was checked at the start alone, and definitions may have
// changed since.
func (r *Replica) followCustom() {
	if r.api == nil {
		return
	}
	for _, key := range r.kept() {
		if gvr, served := r.upstream.Preferred(key.GroupResource); served {
			_ = r.follow(gvr) // the first read tells why it is not followed
		}
	}
	for _, name := range r.options.Follow {
		if gvr, served := r.upstream.Preferred(schema.ParseGroupResource(name)); served {
			if why := r.follow(gvr); why != "" {
				r.logger.Error("Cannot follow a resource that --follow names", "resource", name, "reason", why)
			}
		}
	}
	r.api.SetSibling(nil)
}

// follow is a handler.Config.Follow.
func (r *Replica) follow(gvr schema.GroupVersionResource) handler.Reason {
	if r.options.excludes(gvr.GroupResource()) {
		return handler.Excluded
	}
	if _, ok := r.builtIn[gvr]; ok {
		switch {
		case !r.answersBuiltIn():
			return handler.VersionSkew
		case !r.upstream.Serves(gvr):
			return handler.NotServed
		case r.api != nil && !r.followBuiltIn(gvr, false):
			return handler.OtherVersion
		}
		return ""
	}
	if r.server.CustomRoute(gvr) == nil {
		return handler.NotServed
	}
	if r.api != nil {
		if version := r.server.StorageVersion(gvr); version != "" {
			r.api.Follow(gvr.GroupResource(), source.FollowedVersion{GroupVersionResource: gvr.GroupResource().WithVersion(version)})
		}
	}
	return ""
}

// followBuiltIn follows a built-in resource in the version in which the upstream stores it:
// every version can be made of that one. If the upstream does not serve that version, the
// one that it prefers is followed, and has the fields of no other. It reports whether reads
// of gvr can be answered. What is answered as it is sent is followed from the first read in
// its format on (followVerbatim). Definitions and APIServices are stored as JSON, others as
// protobuf. An optional resource does not keep the replica from being ready.
func (r *Replica) followBuiltIn(gvr schema.GroupVersionResource, optional bool) bool {
	followed := r.builtIn[gvr]
	stored := followed.GroupResource()
	if r.isVerbatim {
		return r.verbatim[stored].GroupVersionResource == gvr
	}
	isStored := r.upstream.Serves(followed)
	if !isStored {
		var served bool
		if followed, served = r.upstream.Preferred(stored); !served {
			return false
		}
	}
	r.api.Follow(stored, source.FollowedVersion{GroupVersionResource: followed, Protobuf: source.HasProtobuf(stored), Optional: optional})
	return isStored || followed == gvr
}

// cutOffSince is a handler.Config.CutOffSince.
func (r *Replica) cutOffSince(gvr schema.GroupVersionResource) time.Time {
	if stored, ok := r.builtIn[gvr]; ok {
		gvr = stored
	}
	return r.backends.BrokenSince(gvr.GroupResource())
}
