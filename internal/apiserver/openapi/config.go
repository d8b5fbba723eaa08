package openapi

import (
	"errors"
	"log/slog"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/apiserver/crd"
)

// Catalog has all definitions. Its methods are safe for concurrent use.
type Catalog interface {
	// All lists the definitions in any order.
	All() []*crd.Definition
	// FullOf decodes a definition in a state that is served as a row says. The error is
	// crd.ErrChanged if no such state is known any longer.
	FullOf(*crd.Definition) (*apiextensionsv1.CustomResourceDefinition, error)
	// StoredOf calls use with the stored bytes of the same state. The bytes are valid until
	// use returns. The error is crd.ErrChanged as for FullOf, another error of reading, or the
	// error of use.
	StoredOf(d *crd.Definition, use func(stored []byte) error) error
	// AddHandler calls f for each definition that exists, and then for each change.
	// before or after is nil for a definition that comes or goes. f must not block.
	AddHandler(f func(before, after *crd.Definition))
}

// Local is one of the servers in this process, as far as OpenAPI is concerned.
type Local struct {
	// V2 builds the spec of the resources that are installed, without defaults. Each call
	// returns a new spec, which the caller may change.
	V2 func() (*spec.Swagger, error)
	// V3 builds a handler of /openapi/v3 for those resources. It is nil if the handler after
	// Server.Wrap serves their documents.
	V3 func() (http.Handler, error)
}

// Config is what a Server needs. It must not change afterwards.
type Config struct {
	Catalog Catalog
	// Locals returns the servers in the order of the chain. The first is the aggregator;
	// custom resources belong to the last. It is called when a document is asked for, and
	// returns the same servers each time.
	Locals func() []Local
	// Version is the version of the program. Tags depend on it, because other versions may
	// build other documents.
	Version string
	// CacheBytes is the limit of the fragment cache. Zero means 64 MiB.
	CacheBytes int64
	// Logger receives documents that cannot be built, and custom resources that they lack.
	// Nil means slog.Default.
	Logger *slog.Logger
	// Panics counts builders that panic. It may be nil.
	Panics *panics.Counter
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
