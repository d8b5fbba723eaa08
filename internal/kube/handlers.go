package kube

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
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
	build chainBuild
	// settle is discovery.Server.Settle, nil if a request that it settles may wait for
	// others on its way.
	settle func(*http.Request) *http.Request
}

// chain leaves out what has no effect on a request. Where traces go nowhere, the
// tracing filter hands on a request's own trace context and does nothing else, at a
// tenth of what a GET costs. It stands behind all others then, and in the way of those
// requests alone that have one; no filter has anything to trace. The filter of timeouts has
// no effect on what is settled. The filters have a roomy authenticator. There is one chain,
// since filters keep count of the requests in them.
func (b chainBuilder) chain(api http.Handler, c *genericapiserver.Config) *handlerChain {
	l := &handlerChain{}
	with := withStackGrower(c)
	if reflect.TypeOf(c.TracerProvider) == reflect.TypeOf(tracing.NewNoopTracerProvider()) {
		l.fields = tracing.Propagators().Fields()
		if c.FeatureGate.Enabled(features.APIServerTracing) {
			api = l.withTracing(api, c.TracerProvider)
		}
		with.FeatureGate = untracedFeatures{c.FeatureGate}
		with.TracerProvider = noopTracerProvider{TracerProvider: c.TracerProvider}
		if c.AuditBackend == nil && b.settle != nil {
			l.settle = b.settle
			with.LongRunningFunc = longRunningIfSettled(c.LongRunningFunc)
		}
	}
	l.filters = newWatchChain(b.build, api, with)
	return l
}

// handlerChain are the filters with what is settled in front of them.
type handlerChain struct {
	filters http.Handler
	// fields are the headers of a trace context, none where traces go somewhere.
	fields []string
	// settle is that of chainBuilder.
	settle func(*http.Request) *http.Request
}

// ServeHTTP implements http.Handler.
func (l *handlerChain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if l.settle != nil && !discovery.Settled(req.Context()) && !l.hasTraceContext(req) {
		req = l.settle(req)
	}
	l.filters.ServeHTTP(w, req)
}

// withTracing hands the trace context of requests that have one on.
func (l *handlerChain) withTracing(api http.Handler, provider tracing.TracerProvider) http.Handler {
	traced := genericapifilters.WithTracing(api, provider)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if l.hasTraceContext(req) {
			traced.ServeHTTP(w, req)
			return
		}
		api.ServeHTTP(w, req)
	})
}

// settleInline settles a request before it is served, or returns nil.
func (l *handlerChain) settleInline(req *http.Request) *http.Request {
	if l.settle == nil || l.hasTraceContext(req) {
		return nil
	}
	if req = l.settle(req); !discovery.Settled(req.Context()) {
		return nil
	}
	return req
}

func (l *handlerChain) hasTraceContext(req *http.Request) bool {
	return slices.ContainsFunc(l.fields, func(field string) bool { return hasHeader(req, field) })
}

// noopTracerProvider traces nothing: filters that begin a span go on with the context they have,
// which Kubernetes' own provider wraps each time.
type noopTracerProvider struct{ tracing.TracerProvider }

// Tracer implements trace.TracerProvider.
func (noopTracerProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return noopTracer{} }

type noopTracer struct{ noop.Tracer }

// Start implements trace.Tracer.
func (noopTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, noopSpan
}

var noopSpan trace.Span = noop.Span{}

// longRunningIfSettled has the filter of timeouts, and no other, take settled requests for long
// running: it would copy the request, begin a goroutine and wait for that, for an answer
// that is known and has no body. That filter is the one between the deadline, which
// it needs, and authentication.
func longRunningIfSettled(longRunning request.LongRunningRequestCheck) request.LongRunningRequestCheck {
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

// untracedFeatures is without tracing.
type untracedFeatures struct{ featuregate.FeatureGate }

// Enabled implements featuregate.FeatureGate.
func (g untracedFeatures) Enabled(key featuregate.Feature) bool {
	return key != features.APIServerTracing && g.FeatureGate.Enabled(key)
}

// withStackGrower makes the authenticator of a complete configuration roomy. Before that it would
// not be the first that is asked: completing puts the one of loopback tokens in front.
func withStackGrower(c *genericapiserver.Config) *genericapiserver.Config {
	with := *c
	if authn := &with.Authentication; authn.Authenticator != nil {
		authn.Authenticator = stackGrower{authn.Authenticator}
	}
	return &with
}

// stackGrower grows the stack of a request's goroutine. Kubernetes' timeout filter begins
// a new one for each request, whose stack would be copied again and again on the
// way through the filters: authentication is the first of them that is asked here,
// while there is little to copy.
type stackGrower struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (r stackGrower) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if path := uint(len(req.URL.Path)); req.Method == http.MethodGet {
		stack.Grow(path)
	} else {
		stack.GrowTwice(path)
	}
	return r.Request.AuthenticateRequest(req)
}
