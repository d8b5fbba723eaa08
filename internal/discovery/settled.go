package discovery

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

type settledKey struct{}

// Settle looks at a request before it is known who sends it. If that asks whether the
// aggregated document has changed, and it has not, it returns the request with that
// answer, which changes no more: it takes no time to give, and has no body. Nothing is
// made for who may not ask.
func (s *Server) Settle(req *http.Request) *http.Request {
	if req.Method != http.MethodGet || req.URL.Path != "/apis" {
		return req
	}
	d := s.documents.currentDocument()
	if d == nil || req.Header.Get("If-None-Match") != d.quoted || !s.documents.aggregated(req) {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), settledKey{}, d))
}

// aggregated reports whether a client takes the aggregated document. Most clients
// ask for it in the same words.
func (d *Documents) aggregated(req *http.Request) bool {
	accept := req.Header.Get("Accept")
	if last := d.lastAccept.Load(); last != nil && *last == accept {
		return true
	}
	n, err := negotiate(req, d.serializer, aggregated.DiscoveryEndpointRestrictions)
	if err != nil || !aggregated.IsAggregatedDiscoveryGVK(&n.as) {
		return false
	}
	d.lastAccept.Store(&accept)
	return true
}

// Settled reports whether a request was settled.
func Settled(ctx context.Context) bool { return settledOf(ctx) != nil }

// settledOf is the document that the client has, nil if it was not settled.
func settledOf(ctx context.Context) *document {
	known, _ := ctx.Value(settledKey{}).(*document)
	return known
}
