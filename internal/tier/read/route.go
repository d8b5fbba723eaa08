package read

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// Objects finds stored objects without decoding them, as fresh as a request asks for. Keys
// are as in Kubernetes' registries: prefix, namespace, name. Errors are storage's. An error
// that wraps cache.ErrExpired says that only etcd may have what was asked for. An error that
// wraps cache.ErrNotReady or cache.ErrUnproven leaves the answer to another server.
type Objects interface {
	Find(ctx context.Context, key, resourceVersion string) (encode.EntryRun, error)
	Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error)
	// CoversPredicate reports whether Select can apply a predicate without decoding
	// objects.
	CoversPredicate(*storage.SelectionPredicate) bool
	// Decode returns an object as handlers would get it.
	Decode(*entry.Entry) (runtime.Object, error)
	// EncodeForStorage returns the bytes that Kubernetes would store for an entry's object now.
	EncodeForStorage(*entry.Entry) ([]byte, error)
	// Begin finds where a watch begins. Bookmark makes the object that tells a client up to
	// which revision it has seen everything. Expired is the error for a watch that cannot
	// continue after a revision. Ahead is the error for a watch that waits for a
	// revision that etcd does not have. It is nil if etcd has that revision or does not
	// answer. named is the revision in the client's words.
	Begin(ctx context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error)
	Bookmark(revision int64, initialEventsEnd bool) (runtime.Object, error)
	Expired(after int64) error
	Ahead(ctx context.Context, after int64, named string) error
	// Progress says up to which revision the cache has followed etcd. Notify calls reached
	// once the progress is at least revision (cache.Consistent.Notify).
	Progress() *cache.Progress
	Notify(revision int64, reached func()) (cancel func())
	// NewList makes an empty list of what Decode returns.
	NewList() runtime.Object
	// Prefix begins the keys.
	Prefix() string
	// Resource is the cached resource.
	Resource() *cache.Resource
}

// RouteConfig describes a resource in one API version.
type RouteConfig struct {
	Resource   schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Gets, Lists and Watches say which verbs are answered.
	Gets, Lists, Watches bool
	// Serializer knows the media types and encoders of the version.
	Serializer runtime.NegotiatedSerializer
	// Objects is where objects come from.
	Objects Objects
	// Convertor translates field selectors and converts objects.
	Convertor runtime.ObjectConvertor
	// Table makes tables. If it is nil, requests for tables are passed on.
	Table rest.TableConvertor
	// Transcode has the tables of the kind. Nil means that objects are encoded by Kubernetes.
	Transcode *transcode.Kind
	// Rare says that clients seldom list all of the resource. It is not warmed before one
	// did.
	Rare bool
	// Warning is sent with each answer of a deprecated version.
	Warning string
	// RemovedRelease is counted with requests of a deprecated version.
	RemovedRelease string
	// Hub dispatches events. All versions of a resource share it. If it is nil, watches
	// are passed on.
	Hub *watch.Hub
	// Converter is set if a webhook may convert objects to the version.
	Converter Converter
	// Custom is set for custom resources.
	Custom *Custom
	// Verbatim is set for resources whose objects are sent as a server of another version has
	// sent them.
	Verbatim *Verbatim
	// Shared is what all routes of the process have in common. It must not be nil.
	Shared *SharedConfig
}

// SharedConfig is what all routes of a process have in common. It is not changed once a
// route was made with it.
type SharedConfig struct {
	// Budget bounds the wire bytes that are kept.
	Budget *encode.Budget
	// RecentFrames keeps the newest frames of watches.
	RecentFrames *encode.RecentFrames
	// Proofs remembers which objects need not be encoded by Kubernetes. Nil means that
	// Kubernetes encodes all.
	Proofs *transcode.Proofs
	// Accounts keeps an account of each watch. Nil keeps none.
	Accounts *slo.Watches
	// Compress allows compressed answers to GET and LIST: the feature gate
	// APIResponseCompression.
	Compress bool
	// CompressWatches says which watches are compressed. The empty value means none.
	CompressWatches WatchCompression
	// BoundedStaleness lets a GET or LIST without a version be answered with a state that is not
	// proven to be the newest. The storage knows the bound.
	BoundedStaleness bool
	// MinTimeout is the shortest duration of a watch whose request names none. The
	// longest is twice as long.
	MinTimeout time.Duration
	// Skew is what a replica knows of its upstream's version. It is nil at a server.
	Skew *Skew
	// Depth returns how many replicas the events of a watch come through, this one included.
	// Nil means none.
	Depth func() int
	// Panics counts panics of converters and encoders. It may be nil.
	Panics *panics.Counter
}

// Custom is the part of a RouteConfig that only custom resources have.
type Custom struct {
	// Standard are the media types in which objects are served as they are, neither as
	// tables nor as metadata.
	Standard []runtime.SerializerInfo
	// Begin counts a request until end is called. It returns false if the definition is no
	// longer the one that the route was made for. Watches that were accepted are not
	// counted: Route.End ends them.
	Begin func() (end func(), ok bool)
}

// Route answers for one resource in one API version. Its forms are made when they are
// first asked for, and stay: there are few combinations, and memos find their slots by
// the form.
type Route struct {
	cfg RouteConfig
	// root is the path of the API version, as in "/apis/apps/v1".
	root string
	// name is the resource's name in accounts and logs, as in "deployments.apps".
	name string
	// mediaTypes are the media types that the serializer supports.
	mediaTypes []string
	// normalizer is nil if Transcode is.
	normalizer *transcode.Normalizer

	mu struct {
		sync.RWMutex
		forms map[formKey]*routeForm
	}
	// watches are the watches of the route that follow.
	watches watchSet
}

// formKey names a wire form.
type formKey struct {
	mediaType string
	pretty    bool
	// as and version are the kind to which objects are transformed. They are "" if
	// objects are not transformed.
	as, version string
	include     metav1.IncludeObjectPolicy
	// watch says that the form is one of frames. noColumns leaves a table's columns out.
	watch, noColumns bool
}

// routeForm is a form of a route with its hotness.
type routeForm struct {
	// form is nil if Kubernetes must answer requests for it.
	form *encode.Form
	// number counts the forms of a route in the order in which they were made.
	number  int
	hotness hotness
	// names are the form's names in accounts.
	names encodingNames
}

// NewRoute makes a route. For built-in resources that are not verbatim it also makes
// the forms that most clients ask for. So an encoder of an unexpected shape is an error
// at the start.
func NewRoute(cfg RouteConfig) (*Route, error) {
	r := &Route{cfg: cfg, name: cfg.Resource.GroupResource().String(), root: "/apis/" + cfg.Resource.Group + "/" + cfg.Resource.Version, mediaTypes: mediaTypes(cfg.Serializer)}
	if cfg.Resource.Group == "" {
		r.root = "/api/" + cfg.Resource.Version
	}
	r.mu.forms = map[formKey]*routeForm{}
	if cfg.Transcode != nil {
		r.normalizer = transcode.NewNormalizer(cfg.Objects.EncodeForStorage)
	}
	if cfg.Custom != nil || r.isVerbatim() {
		return r, nil
	}
	for _, key := range usualForms {
		made, err := r.form(key)
		if err != nil {
			return nil, fmt.Errorf("make forms of %s: %w", cfg.Resource, err)
		}
		if !cfg.Rare {
			made.hotness.expect(time.Now())
		}
	}
	return r, nil
}

// isRetired reports whether the definition of a custom resource is no longer the one that the
// route was made for.
func (r *Route) isRetired() bool {
	if r.cfg.Custom == nil {
		return false
	}
	end, ok := r.cfg.Custom.Begin()
	if ok {
		end()
	}
	return !ok
}

// usualForms are the forms that most clients ask for, in the order in which they are warmed.
var usualForms = []formKey{{mediaType: runtime.ContentTypeProtobuf}, {mediaType: runtime.ContentTypeJSON}}

// End ends all watches on the route. Watches that begin later end immediately.
func (r *Route) End() { r.watches.end() }

// form returns a form, which it makes if it is the first request for it.
//
// The first request makes the form with the write lock held, while others wait. That is
// coarser than encode's slot.build, which has a lock for each result. But a form is made
// once for the life of the route and stays, so a lock of its own for each would not pay. A
// form that could not be made is tried again by the next request.
func (r *Route) form(key formKey) (*routeForm, error) {
	r.mu.RLock()
	made := r.mu.forms[key]
	r.mu.RUnlock()
	if made != nil {
		return made, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if made := r.mu.forms[key]; made != nil {
		return made, nil
	}
	f, err := r.newForm(key)
	if err != nil {
		return nil, err
	}
	made = &routeForm{form: f, number: len(r.mu.forms), names: key.encodingNames()}
	r.mu.forms[key] = made
	return made, nil
}

func (r *Route) servesVerb(verb string) bool {
	switch verb {
	case "get":
		return r.cfg.Gets
	case "watch":
		return r.cfg.Watches && r.cfg.Hub != nil
	}
	return r.cfg.Lists
}

// path returns the path under which Kubernetes installs a request. prefix is "", or "/watch" for
// the deprecated watches. namespace and name are "" for none.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
func (r *Route) path(prefix, namespace, name string) string {
	p := r.root + prefix
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/" + r.cfg.Resource.Resource
	if name != "" {
		p += "/" + name
	}
	return p
}

// key returns the key that registries use for an object, for a namespace, or for the
// resource. namespace and name are "" for none.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.NamespaceKeyFunc; compare at each upgrade.
func (r *Route) key(namespace, name string) string {
	key := r.cfg.Objects.Prefix()
	if namespace != "" {
		key += "/" + namespace
	}
	if name != "" {
		key += "/" + name
	}
	return key
}
