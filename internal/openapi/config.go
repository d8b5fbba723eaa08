package openapi

import (
	"errors"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/crd"
)

// Catalog knows all definitions.
type Catalog interface {
	// All lists the definitions in any order.
	All() []*crd.Definition
	// Get returns nil for a definition that does not exist.
	Get(name string) *crd.Definition
	// Full decodes a definition. The caller does not change it.
	Full(name string) (*apiextensionsv1.CustomResourceDefinition, error)
	// Stored calls use with a definition as it is stored and its revision. The bytes
	// are good until use returns, whose error is returned.
	Stored(name string, use func(revision int64, stored []byte) error) error
	// AddHandler calls f for each change, and first for each definition that exists.
	// Either side may be nil. f returns at once.
	AddHandler(f func(before, after *crd.Definition))
}

// Local is one of the servers in this process, as far as OpenAPI is concerned.
type Local struct {
	// V2 builds the spec of what is installed, without defaults. Each call returns
	// another one, which the caller may change.
	V2 func() (*spec.Swagger, error)
	// V3 builds a handler that serves /openapi/v3 of what is installed; nil if
	// another one does.
	V3 func() (http.Handler, error)
}

// Config is what a Server needs. It does not change afterwards.
type Config struct {
	Catalog Catalog
	// Locals returns those in the order of the chain, the aggregator first; the
	// custom resources belong to the last. It is called when a document is asked
	// for and returns the same each time.
	Locals func() []Local
	// Version is that of the program: other versions may build other documents.
	Version string
	// CacheBytes bound the compressed fragments that are kept: 64 MiB if zero.
	CacheBytes int64
}

const defaultCacheBytes = 64 << 20

func (c Config) validate() error {
	if c.Catalog == nil {
		return errors.New("openapi: a catalog is needed")
	}
	if c.Locals == nil {
		return errors.New("openapi: local servers are needed")
	}
	if c.CacheBytes < 0 {
		return errors.New("openapi: cache bytes must not be negative")
	}
	return nil
}
