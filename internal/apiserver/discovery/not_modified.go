package discovery

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

type notModifiedKey struct{}

// DecideNotModified decides a conditional request (If-None-Match) for the aggregated
// document before the client is authenticated. If the client has the current document,
// DecideNotModified returns the request with that decision in its context. Documents.serve
// then answers 304 without a body, even if the document changes meanwhile. Such an answer
// takes no time, so it needs neither a timeout nor a goroutine of its own.
// DecideNotModified makes no document: the client may turn out not to be allowed to read
// it. All other requests are returned as they are.
func (s *Server) DecideNotModified(req *http.Request) *http.Request {
	if req.Method != http.MethodGet || req.URL.Path != "/apis" {
		return req
	}
	d := s.documents.currentDocument()
	if d == nil || req.Header.Get("If-None-Match") != d.quoted || !s.documents.aggregated(req) {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), notModifiedKey{}, d))
}

// aggregated reports whether a client accepts the aggregated document. Most clients send
// the same Accept header, so the last one that was found to accept it is remembered.
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

// NotModifiedDecided reports whether DecideNotModified has decided to answer 304.
func NotModifiedDecided(ctx context.Context) bool { return notModifiedDocument(ctx) != nil }

// notModifiedDocument returns the document that the client has, or nil if DecideNotModified
// has decided nothing.
func notModifiedDocument(ctx context.Context) *document {
	known, _ := ctx.Value(notModifiedKey{}).(*document)
	return known
}
