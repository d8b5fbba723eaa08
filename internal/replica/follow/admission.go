package follow

import (
	"context"
	"fmt"
	"net/http"
)

// admission is the transport of feeds. Before each watch it has the upstream's version looked at:
// a connection may lead to another server than the last one, and events of another version must
// not reach those who read the objects of this one.
type admission struct {
	admit func(context.Context) error
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *admission) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") == "true" {
		if err := a.admit(req.Context()); err != nil {
			return nil, err
		}
	}
	return a.next.RoundTrip(req)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of k8s.io/apimachinery.
func (a *admission) WrappedRoundTripper() http.RoundTripper { return a.next }

// admit returns an error if the server that answers now is of a version whose objects cannot be
// read in the present mode.
func (p *Policy) admit(ctx context.Context) error {
	if err := p.cfg.Upstream.LookAtVersion(ctx); err != nil {
		return err
	}
	if skew := p.cfg.Upstream.Skew(); p.mode == decoded && skew != 0 {
		return fmt.Errorf("the upstream is of version %s now, and this program of %s", p.cfg.Upstream.Version(), p.cfg.OwnVersion)
	}
	return nil
}
