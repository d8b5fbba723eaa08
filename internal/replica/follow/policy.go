package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/storage"
)

// definitions are the definitions of custom resources, and services the APIServices. A replica
// needs them to answer for custom resources, and follows them from the start.
var (
	definitions = apiextensions.Resource("customresourcedefinitions")
	services    = apiregistration.Resource("apiservices")
)

// PolicyConfig configures a Policy.
type PolicyConfig struct {
	Upstream *upstream.Upstream
	// Resources is nil if everything comes from etcd.
	Resources *Resources
	// Follow names resources that are followed from the start.
	Follow []string
	// Exclude names resources whose reads are always passed on.
	Exclude []string
	// Only says that only the resources of Follow are followed, and what the replica itself
	// needs.
	Only bool
	// Restart restarts the replica for another version of the upstream. It is called at most once.
	Restart func(reason error)
	// FollowedBefore are the keys that the replica followed before it was restarted.
	FollowedBefore []string
	// OwnVersion is the version of this program, for messages.
	OwnVersion string
	Logger     *slog.Logger
}

// Policy decides of each read whether it may be answered, and starts to follow its resource in
// the right version. ChooseMode and Use must be called first, in this order.
type Policy struct {
	cfg PolicyConfig
	// server is set by Use.
	server *kube.Replica
	// builtIn has, for each built-in resource that has a route, the stored resource and the
	// version in which it is stored.
	builtIn map[schema.GroupVersionResource]schema.GroupVersionResource
	// mode is how built-in resources are answered.
	mode mode
	// verbatimVersions are the versions of mode verbatim, by stored resource.
	verbatimVersions map[schema.GroupResource]verbatimVersion
	// servers knows what the upstream proxies to other servers.
	servers otherServers
	// etcd compares etcd with the upstream. It is used if everything comes from etcd.
	etcd sameCluster

	// The fields below belong to Run's goroutine, after ChooseMode.

	// skew is the upstream's skew at the last look, and skewSince when it was first seen. The
	// skew at the start has a zero skewSince.
	skew      int
	skewSince time.Time
	// restarting says that Restart was called.
	restarting bool
}

// NewPolicy makes a Policy. It follows nothing before Use.
func NewPolicy(cfg PolicyConfig) *Policy {
	p := &Policy{cfg: cfg}
	p.etcd = sameCluster{first: cfg.Upstream.First, warn: cfg.Logger.Warn}
	if cfg.Resources != nil {
		cfg.Resources.SetFollowAgain(p.followAgain)
		cfg.Resources.SetAdmit(p.admit)
	}
	return p
}

// Use sets the server and the stores of built-in resources. It follows definitions,
// APIServices, and the built-in resources that --follow names or that an earlier run has
// followed. It must be called once, after ChooseMode and before Run.
func (p *Policy) Use(server *kube.Replica, stored func(schema.GroupResource) *storage.Store) error {
	p.server, p.servers.services, p.etcd.stored = server, stored(services).Resource(), stored
	p.builtIn = map[schema.GroupVersionResource]schema.GroupVersionResource{}
	for _, route := range server.Routes() {
		p.builtIn[route.Resource] = route.Stored.WithVersion(route.StorageVersion.Version)
	}
	p.chooseVersions(server.Routes())
	if p.cfg.Resources == nil {
		return nil
	}
	for _, name := range slices.Concat([]string{definitions.String(), services.String()}, p.cfg.Follow) {
		gr := schema.ParseGroupResource(name)
		gvr, served := p.cfg.Upstream.PreferredVersion(gr)
		if !served {
			return fmt.Errorf("the upstream does not serve %s: correct --follow", gr)
		}
		if _, builtIn := p.builtIn[gvr]; builtIn {
			p.followNamed(gvr, gr == definitions || gr == services)
		}
	}
	p.followKept()
	p.followAsBefore()
	return nil
}

// followNamed follows a built-in resource in all forms that are answered.
func (p *Policy) followNamed(gvr schema.GroupVersionResource, needed bool) {
	r := Request{Named: true, Needed: needed, UpstreamOnly: needed, Optional: needed && gvr.GroupResource() == services}
	p.followBuiltIn(gvr, r)
	stored := p.builtIn[gvr].GroupResource()
	p.followVerbatim(Key{GroupResource: stored}, r)
	p.followVerbatim(Key{GroupResource: stored, InProtobuf: true}, r)
}

// followKept follows the built-in resources that an earlier run has followed, and removes the
// files of resources that are not to be followed.
func (p *Policy) followKept() {
	for _, key := range p.cfg.Resources.cfg.Checkpoints.keys() {
		gvr, served := p.cfg.Upstream.PreferredVersion(key.GroupResource)
		_, builtIn := p.builtIn[gvr]
		switch {
		case p.keepsOut(key.GroupResource) || key.InProtobuf && p.mode != verbatim || !served:
			p.cfg.Resources.cfg.Checkpoints.remove(key)
		case p.mode == verbatim:
			p.followVerbatim(key, Request{Optional: true})
		case builtIn:
			p.followBuiltIn(gvr, Request{Optional: true})
		}
	}
}

// followAsBefore follows what was read before the replica was restarted, so that its clients
// find it loaded.
func (p *Policy) followAsBefore() {
	for _, name := range p.cfg.FollowedBefore {
		key := parseKey(name)
		gvr, served := p.cfg.Upstream.PreferredVersion(key.GroupResource)
		if _, builtIn := p.builtIn[gvr]; !served || !builtIn || p.keepsOut(key.GroupResource) {
			continue // the first read of a custom resource follows it
		}
		p.followBuiltIn(gvr, Request{Optional: true})
		p.followVerbatim(key, Request{Optional: true})
	}
}

// FollowedKeys returns the keys of the resources that are followed now, in the forms that
// clients read. A decoded resource is followed in one form, from which both forms are
// answered.
func (p *Policy) FollowedKeys() (names []string) {
	if p.cfg.Resources == nil {
		return nil
	}
	for _, f := range p.cfg.Resources.allResources() {
		if f.currentFeed() == nil {
			continue
		}
		if f.key.InProtobuf || f.readInJSON.Load() {
			names = append(names, f.key.String())
		}
		if f.readInProtobuf.Load() {
			names = append(names, Key{f.key.GroupResource, true}.String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Ready is called once the replica is ready, when definitions are known. It follows the custom
// resources that Follow names, or that an earlier run has followed. What is followed later is
// loaded from the upstream.
func (p *Policy) Ready() {
	if p.cfg.Resources == nil {
		return
	}
	for _, key := range p.cfg.Resources.cfg.Checkpoints.keys() {
		if gvr, served := p.cfg.Upstream.PreferredVersion(key.GroupResource); served {
			_ = p.Follow(gvr) // the first read tells why it is not followed
		}
	}
	for _, name := range p.cfg.Follow {
		if gvr, served := p.cfg.Upstream.PreferredVersion(schema.ParseGroupResource(name)); served {
			if why := p.Follow(gvr); why != "" {
				p.cfg.Logger.Error("Cannot follow a resource that --follow names", "resource", name, "reason", why)
			}
		}
	}
	p.cfg.Resources.StartIsOver()
}

// followAgain is a function for Resources.SetFollowAgain.
func (p *Policy) followAgain(key Key) {
	if p.server == nil {
		return
	}
	if v := p.server.CustomVersion(key.GroupResource); v != "" {
		_ = p.Follow(key.WithVersion(v)) // the next read tells why it is not followed
		return
	}
	gvr, served := p.cfg.Upstream.PreferredVersion(key.GroupResource)
	switch {
	case !served:
	case p.mode == verbatim:
		p.followVerbatim(key, Request{})
	default:
		_ = p.Follow(gvr)
	}
}

// Read implements handler.Config.Follow.
func (p *Policy) Read(gvr schema.GroupVersionResource, protobuf bool) handler.Reason {
	if stored, builtIn := p.builtIn[gvr]; builtIn && p.cfg.Resources != nil {
		p.cfg.Resources.lookup(Key{GroupResource: stored.GroupResource()}).noteRead(protobuf)
	}
	return p.Follow(gvr)
}

// Follow follows a resource, or returns why its reads cannot be answered.
func (p *Policy) Follow(gvr schema.GroupVersionResource) handler.Reason {
	if _, builtIn := p.builtIn[gvr]; builtIn {
		return p.followBuiltInRead(gvr)
	}
	return p.followCustom(gvr)
}

func (p *Policy) followBuiltInRead(gvr schema.GroupVersionResource) handler.Reason {
	stored := p.builtIn[gvr].GroupResource()
	switch {
	case p.Excludes(stored):
		return handler.Excluded
	case p.mode == decoded && p.cfg.Upstream.Skew() != 0:
		return handler.Restarting
	case !p.answersBuiltIn():
		return handler.VersionSkew
	case !p.cfg.Upstream.Serves(gvr):
		return handler.NotServed
	case p.cfg.Resources == nil && !p.etcd.isSame(stored):
		return handler.OtherEtcd
	case p.cfg.Resources == nil:
		return ""
	case p.keepsOut(stored):
		return handler.NotNamed
	}
	return p.followBuiltIn(gvr, Request{Named: p.names(stored)})
}

// followCustom follows a custom resource in the version that clients prefer, if gvr may be
// read. Reads in a version with the same schema are answered from that version, and reads in
// other versions are passed on.
func (p *Policy) followCustom(gvr schema.GroupVersionResource) handler.Reason {
	gr := gvr.GroupResource()
	switch {
	case p.Excludes(gr):
		return handler.Excluded
	case p.server.CustomRoute(gvr) == nil || p.IsHandedOver(gvr.GroupVersion()):
		return handler.NotServed
	case p.cfg.Resources == nil && !p.etcd.isSame(definitions):
		return handler.OtherEtcd
	case p.cfg.Resources == nil:
		return ""
	case p.keepsOut(gr):
		return handler.NotNamed
	}
	preferred := p.server.CustomVersion(gr)
	followed, why := p.cfg.Resources.Follow(Key{GroupResource: gr}, Request{
		Version: Version{GroupVersionResource: gr.WithVersion(preferred)}, Named: p.names(gr), Custom: true, Spec: p.server.CustomSpec(gr),
	})
	if why == "" && preferred != gvr.Version && !p.server.HaveSameSchema(gr, preferred, gvr.Version) {
		return handler.OtherVersion
	}
	if why == "" && followed.Version != "" && followed.Version != preferred {
		return handler.OtherVersion // the definition has just changed
	}
	return handler.Reason(why)
}

// followBuiltIn follows a built-in resource, and returns why reads of gvr cannot be answered.
// In mode verbatim it only returns the reason: the first read in a form follows the form
// (followVerbatim).
//
// It follows the version in which the resource is stored: every version can be made of that
// one. If the upstream does not serve the stored version, the version that the upstream
// prefers is followed, and only its own reads are answered. Definitions and APIServices are
// followed as JSON, all other resources as protobuf.
func (p *Policy) followBuiltIn(gvr schema.GroupVersionResource, r Request) handler.Reason {
	followed := p.builtIn[gvr]
	stored := followed.GroupResource()
	if p.mode == verbatim {
		if p.verbatimVersions[stored].GroupVersionResource != gvr {
			return handler.OtherVersion
		}
		return handler.Reason(p.cfg.Resources.refusalInAnyForm(stored))
	}
	isStored := p.cfg.Upstream.Serves(followed)
	if !isStored {
		var served bool
		if followed, served = p.cfg.Upstream.PreferredVersion(stored); !served {
			return handler.OtherVersion
		}
	}
	r.Version = Version{GroupVersionResource: followed, Protobuf: hasProtobuf(stored)}
	_, why := p.cfg.Resources.Follow(Key{GroupResource: stored}, r)
	if why == "" && !isStored && followed != gvr {
		return handler.OtherVersion
	}
	return handler.Reason(why)
}

// maxShared is the bytes of the objects of a resource, as stored, below which lists of the
// resource are held for several clients.
const maxShared = 8 << 20

// MayShare implements handler.Config.MayShare. It returns false while the size of the
// resource is not known, because it is not loaded.
func (p *Policy) MayShare(gvr schema.GroupVersionResource) bool {
	if stored, ok := p.builtIn[gvr]; ok {
		gvr = stored
	}
	if p.cfg.Resources == nil {
		store := p.etcd.stored(gvr.GroupResource())
		return store != nil && store.Resource().Snapshot().Bytes < maxShared
	}
	f := p.cfg.Resources.lookup(Key{GroupResource: gvr.GroupResource()})
	return f != nil && f.backend.Cache.Ready() == nil && f.bytes() < maxShared
}

// IsHandedOver reports whether the upstream proxies a group version to another server.
func (p *Policy) IsHandedOver(gv schema.GroupVersion) bool { return p.servers.serve(gv) }

// FollowNeeded follows a built-in resource that the replica itself needs, from the upstream
// alone. It returns false if the upstream serves the resource in no version that this program
// knows. In mode verbatim it follows nothing.
func (p *Policy) FollowNeeded(gr schema.GroupResource) bool {
	gvr, served := p.cfg.Upstream.PreferredVersion(gr)
	if _, builtIn := p.builtIn[gvr]; !served || !builtIn {
		return false
	}
	p.followBuiltIn(gvr, Request{Needed: true, UpstreamOnly: true})
	return true
}

// Excludes reports whether a flag keeps reads of a stored resource from being answered. A
// replica of an etcd holds secrets anyway. From an API, secrets are copied only if --follow
// names them.
func (p *Policy) Excludes(stored schema.GroupResource) bool {
	return slices.ContainsFunc(p.cfg.Exclude, func(name string) bool { return p.storedOf(name) == stored }) ||
		p.cfg.Resources != nil && stored == secrets && !p.names(stored)
}

// keepsOut reports whether a stored resource is not to be followed by an API.
func (p *Policy) keepsOut(stored schema.GroupResource) bool {
	return p.Excludes(stored) || p.cfg.Only && !p.names(stored)
}

// names reports whether a stored resource is in --follow, or is definitions or services.
func (p *Policy) names(stored schema.GroupResource) bool {
	return stored == definitions || stored == services ||
		slices.ContainsFunc(p.cfg.Follow, func(name string) bool { return p.storedOf(name) == stored })
}

// storedOf returns the resource as which a resource that a flag names is stored: the events of
// two groups are stored as one.
func (p *Policy) storedOf(name string) schema.GroupResource {
	gr := schema.ParseGroupResource(name)
	if gvr, served := p.cfg.Upstream.PreferredVersion(gr); served {
		if stored, builtIn := p.builtIn[gvr]; builtIn {
			return stored.GroupResource()
		}
	}
	return gr
}

// CutOffSince returns a handler.Config.CutOffSince. brokenSince is Backends.BrokenSince.
func (p *Policy) CutOffSince(brokenSince func(schema.GroupResource) time.Time) func(schema.GroupVersionResource) time.Time {
	return func(gvr schema.GroupVersionResource) time.Time {
		if stored, ok := p.builtIn[gvr]; ok {
			gvr = stored
		}
		return brokenSince(gvr.GroupResource())
	}
}

// Run looks for another version of the upstream, and for group versions that another server
// answers for than before, until the context ends.
func (p *Policy) Run(ctx context.Context) {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			p.lookAtVersion(now)
			for _, gv := range p.servers.changed() {
				p.outdate(gv)
			}
		case <-ctx.Done():
			return
		}
	}
}

// outdate loads the resources again that are followed in a group version, because another
// server answers for it.
func (p *Policy) outdate(gv schema.GroupVersion) {
	if p.cfg.Resources == nil {
		return
	}
	for _, f := range p.cfg.Resources.allResources() {
		if r := f.run.Load(); r != nil && f.key.Group == gv.Group && r.version.Version == gv.Version {
			p.cfg.Resources.Outdated(f.key.GroupResource)
		}
	}
}
