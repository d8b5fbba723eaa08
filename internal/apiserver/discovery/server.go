package discovery

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Config configures Server.
type Config struct {
	// Aggregator encodes the answers of the aggregator, and Extensions the answers of the
	// server of custom resources.
	Aggregator, Extensions runtime.NegotiatedSerializer
}

// Server answers discovery requests in front of Kubernetes' handlers.
type Server struct {
	documents *Documents
	services  *Services
	custom    *Custom
	// core has the recorded answers for the core group.
	core builtin
	cfg  Config
}

// New makes a server that knows no groups but the aggregator's own. It starts nothing.
func New(cfg Config) (*Server, error) {
	s := &Server{custom: newCustom(cfg.Extensions), cfg: cfg}
	var err error
	if s.documents, err = newDocuments("apis", s.custom); err != nil {
		return nil, err
	}
	s.custom.invalidate = s.documents.invalidate
	if s.services, err = newServices(cfg.Aggregator); err != nil {
		return nil, err
	}
	return s, nil
}

// Manager returns the manager that is to replace Kubernetes' manager in the configuration
// of each server. It answers requests for the aggregated document.
func (s *Server) Manager() aggregated.ResourceManager {
	return manager{documents: s.documents, source: aggregated.BuiltinSource}
}

// Services returns the APIServices. The caller must feed them from an informer.
func (s *Server) Services() *Services { return s.services }

// Custom returns the groups of custom resources. The caller must report changes of
// definitions to it.
func (s *Server) Custom() *Custom { return s.custom }

// Wrap returns a handler that answers discovery requests, and passes all others on to
// next, the aggregator's handler. Requests must be authorized before they come here.
func (s *Server) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answered := true
		switch {
		case NotModifiedDecided(req.Context()):
			s.documents.instrument(w, req)
		case req.Method == http.MethodGet:
			answered = s.serve(next, w, req)
		default:
			answered = s.serveOtherMethods(w, req)
		}
		if !answered {
			next.ServeHTTP(w, req)
		}
	})
}

// serveOtherMethods answers requests with a method other than GET for versions of custom
// resources, whose handlers in Kubernetes do not look at the method. It reports whether it
// has answered.
func (s *Server) serveOtherMethods(w http.ResponseWriter, req *http.Request) bool {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "apis" {
		return false
	}
	gv := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	return !s.services.Proxied(gv) && !s.documents.builtin.Load().groups[gv.Group] && s.custom.serve(gv, w, req)
}

// serve answers a GET, and reports whether it has.
func (s *Server) serve(next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	path, ok := strings.CutPrefix(req.URL.Path, "/api")
	if !ok || strings.Count(path, "/") > 3 {
		return false
	}
	path, slash := strings.CutSuffix(path, "/")
	parts := strings.Split(path, "/")
	switch {
	case parts[0] == "":
		return !slash && s.serveCore(parts[1:], next, w, req)
	case parts[0] != "s":
	case len(parts) == 1:
		// For Kubernetes a slash at the end makes another path, which has no aggregated
		// form.
		if !slash && s.documents.aggregated(req) {
			return false
		}
		s.services.serveList(w, req)
		return true
	case len(parts) == 2 && parts[1] != "":
		return s.serveGroup(parts[1], next, w, req)
	case len(parts) == 3 && parts[1] != "" && parts[2] != "":
		return s.serveVersion(schema.GroupVersion{Group: parts[1], Version: parts[2]}, next, w, req)
	}
	return false
}

// serveCore answers for the core group: its aggregated document, or version v1. It leaves
// the group's plain document to Kubernetes, because that depends on the client's address.
// version has the segments of the path after /api.
func (s *Server) serveCore(version []string, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	if s.services.Proxied(schema.GroupVersion{Version: "v1"}) {
		return false
	}
	if len(version) > 0 {
		return len(version) == 1 && version[0] == "v1" && s.serveBuiltin(&s.core, next, w, req)
	}
	n, ok := negotiateRouted(req, s.documents.serializer, aggregated.DiscoveryEndpointRestrictions)
	if !ok || n.as.Empty() || n.profile != "" || audited(req) {
		return false
	}
	serve := func(w http.ResponseWriter, req *http.Request) { s.core.serve(n, next, w, req) }
	if s.core.has(n, req) {
		serve = metrics.InstrumentHandlerFunc(request.MethodGet, "", "", "", "api", "", metrics.APIServerComponent, false, "", serve)
	} // else Kubernetes' handler answers, which counts the request itself
	serve(w, req)
	return true
}

// serveGroup answers for a group by its APIServices. For a group without APIServices, it
// answers as the next server after the aggregator would.
func (s *Server) serveGroup(name string, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	if s.services.serveGroup(name, w, req) {
		return true
	}
	if b := s.documents.builtin.Load(); b.groups[name] {
		return s.serveBuiltin(b, next, w, req)
	}
	return s.custom.serve(schema.GroupVersion{Group: name}, w, req)
}

// serveVersion answers for a group version, unless another server serves it.
func (s *Server) serveVersion(gv schema.GroupVersion, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	if s.services.Proxied(gv) {
		return false
	}
	if b := s.documents.builtin.Load(); b.groups[gv.Group] {
		// Kubernetes' router does not let requests for other versions of these groups through.
		return b.versions[gv] && s.serveBuiltin(b, next, w, req)
	}
	return s.custom.serve(gv, w, req)
}

// serveBuiltin answers with a recorded answer of Kubernetes' handler.
func (s *Server) serveBuiltin(b *builtin, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	n, ok := negotiateRouted(req, s.cfg.Aggregator, negotiation.DefaultEndpointRestrictions)
	if !ok || audited(req) || strings.HasSuffix(req.URL.Path, "/") {
		return false
	}
	b.serve(n, next, w, req)
	return true
}
