package tiermount

import (
	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// useVerbatim makes a route's configuration verbatim. If the resource is also stored as
// protobuf, it makes a second route for that. It returns false if no route is to be made.
func (r *ReadTier) useVerbatim(cfg *read.RouteConfig, route *kube.Route) (bool, error) {
	if cfg.Verbatim = r.Verbatim(route, sentobject.JSON); cfg.Verbatim == nil {
		return false, nil
	}
	s := r.Decorator.ProtobufStore(route.Stored)
	if s == nil {
		return true, nil
	}
	protobuf := *cfg
	protobuf.Objects, protobuf.Hub, protobuf.Verbatim = s, watch.NewHub(s.Resource()), r.Verbatim(route, sentobject.Protobuf)
	if protobuf.Verbatim == nil {
		return true, nil
	}
	var err error
	cfg.Verbatim.Protobuf, err = r.route(protobuf)
	return true, err
}
