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
)

// Source finds stored objects without decoding them, as fresh as a request asks
// for. Keys are those of Kubernetes' registries: prefix, namespace, name. Errors
// are storage's; one that wraps cache.ErrExpired says that only etcd may have
// what is asked for.
type Source interface {
	Find(ctx context.Context, key, resourceVersion string) (encode.Span, error)
	Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error)
	// Decode returns an object as handlers would get it.
	Decode(*resource.Entry) (runtime.Object, error)
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
	// Gets and Lists say which verbs are answered.
	Gets, Lists bool
	// Serializer knows the media types and encoders of the version.
	Serializer runtime.NegotiatedSerializer
	// Source is where objects come from.
	Source Source
	// Convertor translates field selectors and converts objects.
	Convertor runtime.ObjectConvertor
	// Table makes tables. Nil passes them on.
	Table rest.TableConvertor
	// Budget bounds the wire bytes that are kept.
	Budget *encode.Budget
	// Warning is sent with each answer of a deprecated version.
	Warning string
	// RemovedRelease is counted with requests of a deprecated version.
	RemovedRelease string
	// Compress allows compression (the feature gate APIResponseCompression).
	Compress bool
}

// Route answers for one resource in one API version.
type Route struct {
	cfg        RouteConfig
	root       string
	mediaTypes []string

	mu struct {
		sync.RWMutex
		// forms are made when they are first asked for.
		forms map[formKey]*madeForm
	}
}

// formKey names a wire form.
type formKey struct {
	mediaType string
	pretty    bool
	// as and version are what the object is transformed to, "" for nothing.
	as, version string
	include     metav1.IncludeObjectPolicy
}

// madeForm is a form, nil if Kubernetes has to answer.
type madeForm struct {
	form *encode.Form
	heat heat
}

// NewRoute makes a route, and the forms that most clients ask for.
func NewRoute(cfg RouteConfig) (*Route, error) {
	r := &Route{cfg: cfg, root: "/apis/" + cfg.Resource.Group + "/" + cfg.Resource.Version, mediaTypes: mediaTypes(cfg.Serializer)}
	if cfg.Resource.Group == "" {
		r.root = "/api/" + cfg.Resource.Version
	}
	r.mu.forms = map[formKey]*madeForm{}
	for _, key := range usualForms {
		made, err := r.form(key)
		if err != nil {
			return nil, fmt.Errorf("make forms of %s: %w", cfg.Resource, err)
		}
		made.heat.touch(time.Now())
	}
	return r, nil
}

var usualForms = []formKey{{mediaType: runtime.ContentTypeProtobuf}, {mediaType: runtime.ContentTypeJSON}}

// form returns a form, made now if need be.
func (r *Route) form(key formKey) (*madeForm, error) {
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
	made = &madeForm{form: f}
	r.mu.forms[key] = made
	return made, nil
}

func (r *Route) serves(verb string) bool {
	if verb == "get" {
		return r.cfg.Gets
	}
	return r.cfg.Lists
}

// path is the one path under which Kubernetes installs the request.
func (r *Route) path(namespace, name string) string {
	p := r.root
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
