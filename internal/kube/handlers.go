package kube

import (
	"net/http"
	"reflect"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/tracing"

	"github.com/millrace/millrace/internal/discovery"
	"github.com/millrace/millrace/internal/stack"
)

// chainBuilder makes Kubernetes' filters around a handler.
type chainBuilder struct {
	build func(http.Handler, *genericapiserver.Config) http.Handler
	// settle is discovery.Server.Settle, nil if a request that it settles may wait for
	// others on its way.
	settle func(*http.Request) *http.Request
}

// lean leaves out what has no effect on a request. Where traces go nowhere, the
// tracing filter hands on a request's own trace context and does nothing else, at a
// tenth of what a GET costs. The filter of timeouts has none on what is settled.
func (b chainBuilder) lean(api http.Handler, c *genericapiserver.Config) http.Handler {
	full := b.build(api, c)
	if reflect.TypeOf(c.TracerProvider) != reflect.TypeOf(tracing.NewNoopTracerProvider()) {
		return full
	}
	without := *c
	without.FeatureGate = untraced{c.FeatureGate}
	settle := b.settle
	if c.AuditBackend != nil {
		settle = nil
	}
	if settle != nil {
		without.LongRunningFunc = untimed(c.LongRunningFunc)
	}
	plain := b.build(api, &without)
	fields := tracing.Propagators().Fields()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, field := range fields {
			if sent(req, field) {
				full.ServeHTTP(w, req)
				return
			}
		}
		if settle != nil {
			req = settle(req)
		}
		plain.ServeHTTP(w, req)
	})
}

// untimed has the filter of timeouts, and no other, take settled requests for long
// running: it would copy the request, begin a goroutine and wait for that, for an answer
// that is known and has no body. That filter is the one between the deadline, which
// it needs, and authentication.
func untimed(longRunning request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		ctx := req.Context()
		if !discovery.Settled(ctx) {
			return longRunning(req, info)
		}
		_, limited := ctx.Deadline()
		_, known := request.UserFrom(ctx)
		return limited && !known
	}
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
	if path := uint(len(req.URL.Path)); req.Method == http.MethodGet {
		stack.Grow(path)
	} else {
		stack.GrowTwice(path)
	}
	return r.Request.AuthenticateRequest(req)
}
