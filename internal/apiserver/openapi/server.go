package openapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/endpoints/metrics"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
)

// Server answers /openapi/v2 and /openapi/v3. It is safe for concurrent use.
type Server struct {
	config    Config
	logger    *slog.Logger
	views     viewTracker
	templates publish.PathTemplates
	fragments *fragments
	bases     baseCache
	builtins  builtinDocuments
	modified  modifiedTimes
	root      rootDocument
}

// New returns a Server that follows the catalog. It builds no document.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.CacheBytes == 0 {
		config.CacheBytes = defaultCacheBytes
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &Server{config: config, logger: config.Logger, fragments: newFragments(config.CacheBytes, config.Logger, config.Panics)}
	s.views.catalog, s.views.programVersion = config.Catalog, config.Version
	config.Catalog.AddHandler(s.definitionChanged)
	return s, nil
}

// definitionChanged drops the fragments of a definition that is gone. Other changes are
// noted only: the next request looks at the catalog.
func (s *Server) definitionChanged(before, after *crd.Definition) {
	s.views.changes.Add(1)
	if before == nil || after != nil {
		return // fragments of a changed definition are replaced when needed
	}
	var versions []string
	for _, v := range before.Versions {
		versions = append(versions, v.Name)
	}
	s.fragments.forget(before.Name, versions)
}

// Wrap serves OpenAPI before next. Next is asked for the documents of services of the
// aggregation layer, and gets all other requests.
func (s *Server) Wrap(next http.Handler) http.Handler {
	discovery := instrumented("openapi/v3", func(w http.ResponseWriter, r *http.Request) { s.serveRoot(w, r, next) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/openapi/v2":
			s.serveV2(w, r, next)
		case r.URL.Path == "/openapi/v3":
			discovery(w, r)
		case strings.HasPrefix(r.URL.Path, "/openapi/v3/"):
			s.serveV3(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// instrumented makes Kubernetes' metrics count the requests of a handler.
func instrumented(subresource string, h http.HandlerFunc) http.HandlerFunc {
	return metrics.InstrumentHandlerFunc("GET", "", "", "", subresource, "", "", false, "", h)
}

// errUnreadable says that a stored definition cannot be decoded. The documents leave it out.
var errUnreadable = errors.New("definition cannot be read")

// full decodes the definition whose row is d, in a state that is served as d says.
func (s *Server) full(d *crd.Definition) (*apiextensionsv1.CustomResourceDefinition, error) {
	full, err := s.config.Catalog.FullOf(d)
	if errors.Is(err, crd.ErrChanged) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decode definition %s: %w", errUnreadable, d.Name, err)
	}
	return full, nil
}

// maxAttempts is how often a document is begun because a definition of its view has changed
// and is no longer known as it was. That is rare: most documents are complete as of their view,
// however often definitions change meanwhile.
const maxAttempts = 100

// withView calls build with the newest view, again and again while build returns
// crd.ErrChanged, and maxAttempts times at most.
func (s *Server) withView(ctx context.Context, build func(*view) error) error {
	var err error
	for range maxAttempts {
		if err = build(s.views.get()); !errors.Is(err, crd.ErrChanged) {
			return err
		}
		select {
		case <-time.After(attemptPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// attemptPause is the time between two attempts.
const attemptPause = 20 * time.Millisecond
