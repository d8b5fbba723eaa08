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

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/watch"
)

// Source finds stored objects without decoding them, as fresh as a request asks
// for. Keys are those of Kubernetes' registries: prefix, namespace, name. Errors
// are storage's; one that wraps cache.ErrExpired says that only etcd may have
// what is asked for.
type Source interface {
	Find(ctx context.Context, key, resourceVersion string) (encode.Span, error)
	Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error)
	// CoversPredicate reports whether objects are found by a predicate without decoding them.
	CoversPredicate(*storage.SelectionPredicate) bool
	// Decode returns an object as handlers would get it.
	Decode(*resource.Entry) (runtime.Object, error)
	// Begin finds where a watch begins, and Bookmark is what tells a client how far
	// it has come. Expired and Ahead are the errors of one that cannot go on behind
	// a revision, and of one that waits for a revision in vain.
	Begin(ctx context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error)
	Bookmark(revision int64, initialEventsEnd bool) (runtime.Object, error)
	Expired(after int64) error
	Ahead(ctx context.Context, after int64, named string) error
	// Progress is how far the resource has followed etcd.
	Progress() *cache.Progress
	// NewList makes an empty list of what Decode returns.
	NewList() runtime.Object
	// Prefix begins the keys.
	Prefix() string
	// Resource is where the objects are.
	Resource() *cache.Resource
}

// RouteConfig is a resource in one API version, and where its objects are.
type RouteConfig struct {
	Resource   schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Gets, Lists and Watches say which verbs are answered.
	Gets, Lists, Watches bool
	// Serializer knows the media types and encoders of the version.
	Serializer runtime.NegotiatedSerializer
	// Source is where objects come from.
	Source Source
	// Convertor translates field selectors and converts objects.
	Convertor runtime.ObjectConvertor
	// Table makes tables. Nil passes them on.
	Table rest.TableConvertor
	// Rare says that hardly anybody lists all of the resource: it is encoded ahead only
	// after somebody did.
	Rare bool
	// Warning is sent with each answer of a deprecated version.
	Warning string
	// RemovedRelease is counted with requests of a deprecated version.
	RemovedRelease string
	// Hub dispatches events. All versions of a resource share it. Nil passes
	// watches on.
	Hub *watch.Hub
	// Converter is set for resources that a webhook converts to the version.
	Converter Converter
	// Custom is set for custom resources.
	Custom *Custom
	// Shared is what all routes of the process have in common. It must not be nil.
	Shared *Shared
}

// Shared is what all routes of a process have in common. It is not changed once a route
// was made with it.
type Shared struct {
	// Budget bounds the wire bytes that are kept.
	Budget *encode.Budget
	// RecentFrames keeps the newest frames of watches.
	RecentFrames *encode.RecentFrames
	// Accounts keeps an account of each watch. Nil keeps none.
	Accounts *slo.Watches
	// Compress allows compressed answers to GET and LIST: the feature gate
	// APIResponseCompression. CompressWatches allows compressed watches.
	Compress, CompressWatches bool
	// MinTimeout is the shortest duration of a watch whose request names none. The
	// longest is twice as long.
	MinTimeout time.Duration
}

// Custom is what a custom resource has beside.
type Custom struct {
	// Standard are the media types of objects that are not transformed.
	Standard []runtime.SerializerInfo
	// Begin counts a request that ends by itself, until end is called. It returns
	// false if the definition is not any more what the route was made for.
	Begin func() (end func(), ok bool)
}

// Route answers for one resource in one API version.
type Route struct {
	cfg  RouteConfig
	root string
	// name is the resource's in accounts, as in "deployments.apps".
	name       string
	mediaTypes []string

	mu struct {
		sync.RWMutex
		// forms are made when they are first asked for.
		forms map[formKey]*routeForm
	}
	watches watchSet
}

// formKey names a wire form.
type formKey struct {
	mediaType string
	pretty    bool
	// as and version are what the object is transformed to, "" for nothing.
	as, version string
	include     metav1.IncludeObjectPolicy
	// watch is a form of frames. Tables without head leave the columns out.
	watch, noColumns bool
}

// routeForm is a form, nil if Kubernetes has to answer.
type routeForm struct {
	form    *encode.Form
	hotness hotness
	// names are the form's names in accounts.
	names encodingNames
}

// NewRoute makes a route, and of a built-in resource the forms that most clients
// ask for.
func NewRoute(cfg RouteConfig) (*Route, error) {
	r := &Route{cfg: cfg, name: cfg.Resource.GroupResource().String(), root: "/apis/" + cfg.Resource.Group + "/" + cfg.Resource.Version, mediaTypes: mediaTypes(cfg.Serializer)}
	if cfg.Resource.Group == "" {
		r.root = "/api/" + cfg.Resource.Version
	}
	r.mu.forms = map[formKey]*routeForm{}
	if cfg.Custom != nil {
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

var usualForms = []formKey{{mediaType: runtime.ContentTypeProtobuf}, {mediaType: runtime.ContentTypeJSON}}

// End ends all watches on the route, for good.
func (r *Route) End() { r.watches.end() }

// form returns a form, made now if need be.
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
	made = &routeForm{form: f, names: key.encodingNames()}
	r.mu.forms[key] = made
	return made, nil
}

func (r *Route) serves(verb string) bool {
	switch verb {
	case "get":
		return r.cfg.Gets
	case "watch":
		return r.cfg.Watches && r.cfg.Hub != nil
	}
	return r.cfg.Lists
}

// path is the one path under which Kubernetes installs the request. verb is "" or
// "/watch".
func (r *Route) path(verb, namespace, name string) string {
	p := r.root + verb
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/" + r.cfg.Resource.Resource
	if name != "" {
		p += "/" + name
	}
	return p
}

// key is what registries call an object, or all of a namespace, or all.
func (r *Route) key(namespace, name string) string {
	key := r.cfg.Source.Prefix()
	if namespace != "" {
		key += "/" + namespace
	}
	if name != "" {
		key += "/" + name
	}
	return key
}
