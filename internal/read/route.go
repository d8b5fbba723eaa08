package read

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// RouteConfig is a resource in one API version, and where its objects are.
type RouteConfig struct {
	Resource   schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Namespaced bool
	// Gets and Lists say which verbs are answered.
	Gets, Lists bool
	// Serializer knows the media types and encoders of the version.
	Serializer runtime.NegotiatedSerializer
	// Source, Cache and Consistent are where objects come from.
	Source     *cache.Resource
	Cache      *cache.Cache
	Consistent *cache.Consistent
	// Decode and NewList make what the encoders take.
	Decode  func(*resource.Entry) (runtime.Object, error)
	NewList func() runtime.Object
	// Budget bounds the wire bytes that are kept.
	Budget *encode.Budget
	// Warning is sent with each answer of a deprecated version.
	Warning string
	// RemovedRelease is counted with requests of a deprecated version.
	RemovedRelease string
	// Compress allows gzip (the feature gate APIResponseCompression).
	Compress bool
	// ConsistentError makes the error of a consistent read that etcd did not
	// confirm.
	ConsistentError func(error) error
}

// Route answers for one resource in one API version.
type Route struct {
	cfg                    RouteConfig
	root                   string
	json, pretty, protobuf *encode.Form
}

// NewRoute makes the forms that a resource is served in.
func NewRoute(cfg RouteConfig) (*Route, error) {
	r := &Route{cfg: cfg, root: "/apis/" + cfg.Resource.Group + "/" + cfg.Resource.Version}
	if cfg.Resource.Group == "" {
		r.root = "/api/" + cfg.Resource.Version
	}
	for _, info := range cfg.Serializer.SupportedMediaTypes() {
		var err error
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			if r.json, err = r.newForm(info.Serializer, encode.JSON, info.MediaType); err == nil {
				r.pretty, err = r.newForm(info.PrettySerializer, encode.PrettyJSON, info.MediaType)
			}
		case runtime.ContentTypeProtobuf:
			r.protobuf, err = r.newForm(info.Serializer, encode.Protobuf, info.MediaType)
		}
		if err != nil {
			return nil, fmt.Errorf("make forms of %s: %w", cfg.Resource, err)
		}
	}
	return r, nil
}

func (r *Route) newForm(encoder runtime.Encoder, framing encode.Framing, mediaType string) (*encode.Form, error) {
	return encode.NewForm(encode.Config{
		Decode:    r.cfg.Decode,
		NewList:   r.cfg.NewList,
		Encoder:   r.cfg.Serializer.EncoderForVersion(encoder, r.cfg.Kind.GroupVersion()),
		Framing:   framing,
		MediaType: mediaType,
		Budget:    r.cfg.Budget,
	})
}

// form returns the form of a negotiated media type, nil for one that is not ours.
func (r *Route) form(info runtime.SerializerInfo) *encode.Form {
	switch info.MediaType {
	case runtime.ContentTypeJSON:
		if info.Serializer == info.PrettySerializer {
			return r.pretty
		}
		return r.json
	case runtime.ContentTypeProtobuf:
		return r.protobuf
	}
	return nil
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

// freshness waits for what the query's resource version asks for.
func (q *query) freshness(ctx context.Context) (passed, error) {
	if q.consistent {
		_, err := q.route.cfg.Consistent.Wait(ctx)
		return "", err
	}
	if q.route.cfg.Cache.Ready() != nil {
		return passedLoading, nil
	}
	if q.route.cfg.Cache.Progress().Revision() < q.minRevision {
		return passedVersion, nil
	}
	return "", nil
}
