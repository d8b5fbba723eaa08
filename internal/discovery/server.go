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

// Config is what discovery answers by.
type Config struct {
	// Aggregator encodes what the aggregator answers, Extensions what the server of
	// custom resources does.
	Aggregator, Extensions runtime.NegotiatedSerializer
}

// Server answers discovery requests in front of Kubernetes' handlers.
type Server struct {
	documents *Documents
	services  *Services
	custom    *Custom
	// core are the pages of the core group.
	core builtin
	cfg  Config
}

// New makes a server that knows of no groups but its own.
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

// Manager takes the place of Kubernetes' own in the configuration of each
// server. It answers for the aggregated document.
func (s *Server) Manager() aggregated.ResourceManager {
	return manager{documents: s.documents, source: aggregated.BuiltinSource}
}

// Services are the APIServices that the aggregator knows.
func (s *Server) Services() *Services { return s.services }

// Custom are the definitions of custom resources. It stays empty where
// Kubernetes' own controller tells the manager of them.
func (s *Server) Custom() *Custom { return s.custom }

// Wrap returns the server in front of the aggregator's handler. It stands behind
// authorization. What the server does not know it passes on.
func (s *Server) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answered := true
		switch {
		case Settled(req.Context()):
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

// serveOtherMethods answers other methods where Kubernetes' handlers do not look at it:
// for versions of custom resources. It reports whether it did.
func (s *Server) serveOtherMethods(w http.ResponseWriter, req *http.Request) bool {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "apis" {
		return false
	}
	gv := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	return !s.services.Proxied(gv) && !s.documents.builtin.Load().groups[gv.Group] && s.custom.serve(gv, w, req)
}

// serve reports whether it answered.
func (s *Server) serve(next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	rest, ok := strings.CutPrefix(req.URL.Path, "/api")
	if !ok || strings.Count(rest, "/") > 3 {
		return false
	}
	rest, slash := strings.CutSuffix(rest, "/")
	parts := strings.Split(rest, "/")
	switch {
	case parts[0] == "":
		return !slash && s.serveCore(parts[1:], next, w, req)
	case parts[0] != "s":
	case len(parts) == 1:
		// With a slash the path is another to Kubernetes, and has one form only.
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

// serveCore answers for the core group, aggregated or by version. Its plain
// document depends on where the client is.
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
	} // else Kubernetes' handler is asked, which counts the request itself
	serve(w, req)
	return true
}

// serveGroup answers for a group: as its APIServices say, and before there are
// any as the server behind the aggregator does.
func (s *Server) serveGroup(name string, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	if s.services.serveGroup(name, w, req) {
		return true
	}
	if b := s.documents.builtin.Load(); b.groups[name] {
		return s.serveBuiltin(b, next, w, req)
	}
	return s.custom.serve(schema.GroupVersion{Group: name}, w, req)
}

// serveVersion answers for a group version unless it is another server's.
func (s *Server) serveVersion(gv schema.GroupVersion, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	if s.services.Proxied(gv) {
		return false
	}
	if b := s.documents.builtin.Load(); b.groups[gv.Group] {
		// Other versions of its own groups Kubernetes' router does not let through.
		return b.versions[gv] && s.serveBuiltin(b, next, w, req)
	}
	return s.custom.serve(gv, w, req)
}

// serveBuiltin answers with what Kubernetes' handler once did.
func (s *Server) serveBuiltin(b *builtin, next http.Handler, w http.ResponseWriter, req *http.Request) bool {
	n, ok := negotiateRouted(req, s.cfg.Aggregator, negotiation.DefaultEndpointRestrictions)
	if !ok || audited(req) || strings.HasSuffix(req.URL.Path, "/") {
		return false
	}
	b.serve(n, next, w, req)
	return true
}
