package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrRefused is the error of a request that a guard of the door does not let through.
var ErrRefused = errors.New("the request is none that this replica may make under this identity")

// FaultMessage is the message in the log for a request that a guard refuses.
const FaultMessage = "A fault: this replica was about to send a request that it must not make with its own credentials, and did not"

// guard is the last step of a request with credentials of the replica's, after everything that
// could change the request. It refuses the requests that allows does not permit. So a fault in
// front of the guard costs an answer, and gives nothing away.
type guard struct {
	// allows is Door.isOwn, mayImpersonate or mayVouch.
	allows  func(*http.Request) bool
	next    http.RoundTripper
	metrics *Metrics
	logger  *slog.Logger
	// identity is a label of the metric.
	identity string
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.allows(req) {
		if req.Body != nil {
			req.Body.Close()
		}
		g.metrics.Guarded.WithLabelValues(g.identity).Inc()
		g.logger.Error(FaultMessage, "identity", g.identity, "method", req.Method, "url", req.URL.String())
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, ErrRefused)
	}
	return g.next.RoundTrip(req)
}

// CloseIdleConnections is for callers that want the next request to reach another server.
func (g *guard) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(g.next) }

// The labels of identities in metrics.
const (
	ownIdentity           = "own"
	tokenIdentity         = "token"
	anonymousIdentity     = "anonymous"
	frontProxyIdentity    = "front-proxy"
	impersonationIdentity = "impersonation"
)

// targetKey is the context key of the Target that a request must be for.
type targetKey struct{}

// isOwn reports whether the replica may make a request for itself: one of the shapes, at the
// upstream's address, that names no other user.
func (d *Door) isOwn(req *http.Request) bool {
	if namesUser(req.Header) {
		return false
	}
	path, ok := d.pathBelow(req.URL)
	if !ok {
		return false
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return false
	}
	if target, ok := req.Context().Value(targetKey{}).(Target); ok {
		return req.Method == http.MethodGet && IsDocument(path) && path == target.path && req.URL.RawQuery == target.query
	}
	return shapeOf(req, path, query, d.cfg.MayFollow) != noShape
}

// pathBelow returns the path of a URL below the upstream's address, as it is sent. It returns
// false for a URL of another server, and for a URL that is sent otherwise than it reads.
func (d *Door) pathBelow(u *url.URL) (string, bool) {
	if u.Opaque != "" || u.Host != d.host.Host || u.Scheme != d.host.Scheme || u.EscapedPath() != u.Path {
		return "", false
	}
	path, below := strings.CutPrefix(u.Path, strings.TrimSuffix(d.host.Path, "/"))
	return path, below && strings.HasPrefix(path, "/")
}

// namesUser reports whether headers name a user whom an API server would believe.
func namesUser(header http.Header) bool {
	for name := range header {
		if isImpersonation(name) || strings.HasPrefix(name, frontProxyPrefix) {
			return true
		}
	}
	return false
}

func isImpersonation(name string) bool { return strings.HasPrefix(name, impersonationPrefix) }

// mayImpersonate reports whether a request that carries a client's words may go out with the
// replica's credentials. The request must name the user whom the upstream is to judge. Every
// server on the way must read its path as this replica does.
func mayImpersonate(req *http.Request) bool {
	return req.Header.Get(impersonationPrefix+"User") != "" && isReadAlike(req.URL)
}

// mayVouch is mayImpersonate for requests with the certificate of a front proxy. Such a request
// has no other credentials, which an API server might believe first.
func mayVouch(req *http.Request) bool {
	return req.Header.Get(frontProxyPrefix+"User") != "" && len(req.Header[authorizationHeader]) == 0 && isReadAlike(req.URL)
}

// isReadAlike reports whether every server on the way reads a target as this replica does.
func isReadAlike(u *url.URL) bool {
	return !leadsElsewhere(u.Path) && (u.Opaque == "" || strings.HasPrefix(u.Opaque, "/") && !strings.HasPrefix(u.Opaque, "//"))
}
