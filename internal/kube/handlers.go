package kube

import (
	"net/http"
	"reflect"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/tracing"
)

// chainBuilder makes Kubernetes' filters around a handler.
type chainBuilder func(http.Handler, *genericapiserver.Config) http.Handler

// lean leaves out what has no effect on a request. Where traces go nowhere, the
// tracing filter hands on a request's own trace context and does nothing else, at a
// tenth of what a GET costs.
func (build chainBuilder) lean(api http.Handler, c *genericapiserver.Config) http.Handler {
	full := build(api, c)
	if reflect.TypeOf(c.TracerProvider) != reflect.TypeOf(tracing.NewNoopTracerProvider()) {
		return full
	}
	without := *c
	without.FeatureGate = untraced{c.FeatureGate}
	plain := build(api, &without)
	fields := tracing.Propagators().Fields()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, field := range fields {
			if sent(req, field) {
				full.ServeHTTP(w, req)
				return
			}
		}
		plain.ServeHTTP(w, req)
	})
}

// untraced is without tracing.
type untraced struct{ featuregate.FeatureGate }

// Enabled implements featuregate.FeatureGate.
func (g untraced) Enabled(key featuregate.Feature) bool {
	return key != features.APIServerTracing && g.FeatureGate.Enabled(key)
}

// roomy grows the stack of a request's goroutine. Kubernetes' timeout filter begins
// a new one for each request, whose stack would be copied again and again on the
// way through the filters: authentication is the first of them that is asked here,
// while there is little to copy.
type roomy struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (r roomy) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	grow(len(req.URL.Path))
	return r.Request.AuthenticateRequest(req)
}

// stackRoom makes a stack of 16 KiB, the largest that the runtime keeps ready, and
// as much as a GET takes.
const stackRoom = 9 << 10

// grow takes the room and gives it back. Without an index that is not known before, the
// compiler would see that nobody needs it.
//
//go:noinline
func grow(i int) byte {
	var room [stackRoom]byte
	return room[i%stackRoom]
}
