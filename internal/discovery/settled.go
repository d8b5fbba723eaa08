package discovery

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// settled is an answer that is known before a request has gone through the filters: that
// the client has the document.
type settled struct {
	negotiated
	*document
}

type settledKey struct{}

// Settle looks at a request before it is known who sends it. If that asks whether the
// aggregated document has changed, and it has not, it returns the request with that
// answer, which changes no more: it takes no time to give, and has no body. Nothing is
// made for who may not ask.
func (s *Server) Settle(req *http.Request) *http.Request {
	if req.Method != http.MethodGet || req.URL.Path != "/apis" {
		return req
	}
	d := s.documents.valid()
	if d == nil || req.Header.Get("If-None-Match") != d.quoted {
		return req
	}
	n, err := negotiate(req, s.documents.serializer, aggregated.DiscoveryEndpointRestrictions)
	if err != nil || !aggregated.IsAggregatedDiscoveryGVK(&n.as) {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), settledKey{}, &settled{n, d}))
}

// Settled reports whether a request was settled.
func Settled(ctx context.Context) bool { return settledOf(ctx) != nil }

func settledOf(ctx context.Context) *settled {
	known, _ := ctx.Value(settledKey{}).(*settled)
	return known
}
