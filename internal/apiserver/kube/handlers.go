package kube

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/tracing"

	"github.com/millrace/millrace/internal/apiserver/discovery"
	"github.com/millrace/millrace/internal/conn/growstack"
)

// chainBuilder puts Kubernetes' filters around a handler.
type chainBuilder struct {
	build chainBuild
	// stockFilters allows untracedFilters in the place of what build makes. build must then
	// add no filters to Kubernetes' default filters.
	stockFilters bool
	// decideNotModified is discovery.Server.DecideNotModified. It is nil if the aggregated
	// document is not ours, or if a filter might wait for another server.
	decideNotModified func(*http.Request) *http.Request
	// guard may be nil.
	guard *requestGuard
}

// chain builds Kubernetes' filters, without the filters that have no effect on a request.
//
//   - If traces are exported nowhere, the tracing filter only hands on a request's own
//     trace context, at a tenth of a GET's cost. With stockFilters it is applied only to
//     requests that have a trace context (untracedFilters).
//   - If there is no audit log either, requests that decideNotModified decides skip the timeout
//     filter, which has no effect on them.
//
// The authenticator grows the stack of the request's goroutine first. All requests pass the
// same chain, because filters count the requests in them.
func (b chainBuilder) chain(api http.Handler, c *genericapiserver.Config) *handlerChain {
	h := &handlerChain{}
	with, build := withStackGrower(c), b.build
	if reflect.TypeOf(c.TracerProvider) == reflect.TypeOf(tracing.NewNoopTracerProvider()) {
		h.traceHeaders = tracing.Propagators().Fields()
		if b.stockFilters {
			build = func(api http.Handler, c *genericapiserver.Config) http.Handler {
				return newUntracedFilters(b.build, h.hasTraceContext, api, c)
			}
		}
		with.TracerProvider = noopTracerProvider{TracerProvider: c.TracerProvider}
		if c.AuditBackend == nil && b.decideNotModified != nil {
			h.decideNotModified = b.decideNotModified
			with.LongRunningFunc = longRunningIfNotModified(c.LongRunningFunc)
		}
	}
	watches := newWatchChain(build, b.guard.inside(api), with)
	watches.guard = b.guard
	h.filters = b.guard.outside(watches, c.RequestInfoResolver)
	return h
}

// handlerChain is the filters, and in front of them the decision on conditional requests.
type handlerChain struct {
	filters http.Handler
	// traceHeaders are the headers of a trace context. There are none if traces are exported.
	traceHeaders []string
	// decideNotModified is chainBuilder.decideNotModified. It is nil if no request is
	// decided early.
	decideNotModified func(*http.Request) *http.Request
}

// ServeHTTP implements http.Handler.
func (h *handlerChain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h.decideNotModified != nil && !discovery.NotModifiedDecided(req.Context()) && !h.hasTraceContext(req) {
		req = h.decideNotModified(req)
	}
	h.filters.ServeHTTP(w, req)
}

// decideInline returns a copy of a request with its decided answer, which the handler gives
// without blocking. It returns nil for all other requests.
func (h *handlerChain) decideInline(req *http.Request) *http.Request {
	if h.decideNotModified == nil || h.hasTraceContext(req) {
		return nil
	}
	if req = h.decideNotModified(req); !discovery.NotModifiedDecided(req.Context()) {
		return nil
	}
	return req
}

func (h *handlerChain) hasTraceContext(req *http.Request) bool {
	return slices.ContainsFunc(h.traceHeaders, func(header string) bool { return hasHeader(req, header) })
}

// noopTracerProvider starts no spans: a filter that starts one goes on with the same
// context. Kubernetes' own no-op provider wraps the context each time.
type noopTracerProvider struct{ tracing.TracerProvider }

// Tracer implements trace.TracerProvider.
func (noopTracerProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return noopTracer{} }

type noopTracer struct{ noop.Tracer }

// Start implements trace.Tracer.
func (noopTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, noopSpan
}

var noopSpan trace.Span = noop.Span{}

// longRunningIfNotModified makes the timeout filter, and no other, take decided requests
// for long-running. Otherwise that filter would copy the request and start a goroutine,
// although the answer is known and has no body.
//
// The function recognizes the filter by its place in the chain: after the deadline, which
// stays, and before authentication.
//
// Upstream: k8s.io/apiserver/pkg/server/filters.WithTimeoutForNonLongRunningRequests; compare at each upgrade.
func longRunningIfNotModified(longRunning request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		ctx := req.Context()
		if !discovery.NotModifiedDecided(ctx) {
			return longRunning(req, info)
		}
		_, limited := ctx.Deadline()
		_, known := request.UserFrom(ctx)
		return limited && !known
	}
}

// withStackGrower puts a stackGrower around the authenticator of a completed
// configuration. Before completion it would not be called first: completing adds the
// authenticator of loopback tokens in front.
func withStackGrower(c *genericapiserver.Config) *genericapiserver.Config {
	with := *c
	if authn := &with.Authentication; authn.Authenticator != nil {
		authn.Authenticator = stackGrower{authn.Authenticator}
	}
	return &with
}

// stackGrower grows the stack of a request's goroutine before authentication (package
// growstack). The timeout filter starts a new goroutine for each request that is not
// long-running. Authentication is the first call in that goroutine that we can replace.
type stackGrower struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (r stackGrower) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if path := uint(len(req.URL.Path)); req.Method == http.MethodGet {
		growstack.Grow(path)
	} else {
		growstack.GrowTwice(path)
	}
	return r.Request.AuthenticateRequest(req)
}
