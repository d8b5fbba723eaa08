package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/tracing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/millrace/millrace/internal/conn/growstack"
)

// otherProvider stands for a tracer provider that exports traces.
type otherProvider struct{ tracing.TracerProvider }

// TestTraceContextIsPassedOn checks which requests the tracing filter sees, whether other
// filters start spans, and which trace context reaches the handler: the request's own if
// traces are exported nowhere.
func TestTraceContextIsPassedOn(t *testing.T) {
	api := func(w http.ResponseWriter, req *http.Request) {
		// The tracing filter wraps the response.
		fmt.Fprint(w, "filter ", strings.Contains(fmt.Sprintf("%T", w), "httpsnoop"),
			", trace ", trace.SpanContextFromContext(req.Context()).TraceID(), ", members ", baggage.FromContext(req.Context()).Len())
	}
	const id, none = "0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"
	for _, c := range []struct {
		stockFilters        bool
		provider            tracing.TracerProvider
		header, value, want string
	}{
		{true, tracing.NewNoopTracerProvider(), "", "", "filter false, trace " + none + ", members 0"},
		{true, tracing.NewNoopTracerProvider(), "Traceparent", "00-" + id + "-b7ad6b7169203331-01", "filter true, trace " + id + ", members 0"},
		{true, tracing.NewNoopTracerProvider(), "Baggage", "a=1", "filter true, trace " + none + ", members 1"},
		{true, otherProvider{tracing.NewNoopTracerProvider()}, "", "", "filter true, trace " + none + ", members 0"},
		{false, tracing.NewNoopTracerProvider(), "", "", "filter true, trace " + none + ", members 0"},
	} {
		config := testConfig()
		config.TracerProvider = c.provider
		_, exported := c.provider.(otherProvider)
		chain := chainBuilder{stockFilters: c.stockFilters, build: func(api http.Handler, c *genericapiserver.Config) http.Handler {
			ctx, _ := c.TracerProvider.Tracer("filter").Start(t.Context(), "span")
			if spans := ctx != t.Context(); spans != exported {
				t.Errorf("%T: filters start spans: %v", c.TracerProvider, spans)
			}
			return genericapiserver.DefaultBuildHandlerChain(complete(api), c)
		}}
		handler := chain.chain(http.HandlerFunc(api), config)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if got := w.Body.String(); got != c.want {
			t.Errorf("%T, stock filters %v, header %q: %s, not %s", c.provider, c.stockFilters, c.header, got, c.want)
		}
	}
}

// complete hides from a handler that the server is not complete.
func complete(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(w, req.WithContext(completeContext{req.Context()}))
	})
}

// completeContext lacks the mark of requests that came before the server was complete.
type completeContext struct{ context.Context }

// Value implements context.Context.
func (c completeContext) Value(key any) any {
	if fmt.Sprintf("%T", key) == "filters.muxAndDiscoveryIncompleteKeyType" {
		return nil
	}
	return c.Context.Value(key)
}

// TestLimitCountsAllRequests checks that requests with and without a trace context count
// against the same limit, where there is no fairness.
func TestLimitCountsAllRequests(t *testing.T) {
	config := testConfig()
	config.MaxRequestsInFlight = 1
	begun, end := make(chan bool), make(chan bool)
	handler := chainBuilder{build: genericapiserver.DefaultBuildHandlerChain}.chain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- true
		<-end
	}), config)
	first := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
		first <- w.Code
	}()
	<-begun
	second := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	second.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	w, done := httptest.NewRecorder(), make(chan bool)
	go func() {
		handler.ServeHTTP(w, second)
		close(done)
	}()
	select {
	case <-begun:
		t.Error("two requests are in flight")
		end <- true
	case <-done:
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("status %d beyond the limit", w.Code)
		}
	}
	end <- true
	if code := <-first; code != http.StatusOK {
		t.Errorf("status %d within the limit", code)
	}
	<-done
}

// testConfig is a configuration that suffices for Kubernetes' filters. Each client is the
// user u, who may do everything.
func testConfig() *genericapiserver.Config {
	config := genericapiserver.NewConfig(legacyscheme.Codecs)
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.RequestInfoResolver = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	config.TracerProvider = tracing.NewNoopTracerProvider()
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "u"}}, true, nil
	})
	return config
}

// goroutineID is the number of the calling goroutine.
func goroutineID() string {
	text := make([]byte, 64)
	return strings.Fields(string(text[:runtime.Stack(text, false)]))[1]
}

// TestDecidedRequestsSkipTimeoutFilter checks which requests run in a goroutine of their
// own. Exactly the others run inline. All of them must have a deadline, and must not be
// long-running for the other filters.
func TestDecidedRequestsSkipTimeoutFilter(t *testing.T) {
	d, err := newDiscovery()
	if err != nil {
		t.Fatal(err)
	}
	manager := d.Manager()
	manager.AddGroupVersion("a.example", apidiscoveryv2.APIVersionDiscovery{Version: "v1"})
	accept := "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	w := httptest.NewRecorder()
	first := httptest.NewRequest(http.MethodGet, "/apis", nil)
	first.Header.Set("Accept", accept)
	manager.ServeHTTP(w, first)
	tag := w.Header().Get("ETag")
	for _, c := range []struct {
		method, path, tag string
		audited, apart    bool
	}{
		{method: "GET", path: "/apis", tag: tag},
		{"GET", "/apis", tag, true, true},
		{"GET", "/apis", `"1"`, false, true},
		{"GET", "/apis", "", false, true},
		{"POST", "/apis", tag, false, true},
		{"GET", "/apis/apps", tag, false, true},
	} {
		var here string
		config := testConfig()
		chain := chainBuilder{decideNotModified: d.DecideNotModified, build: func(api http.Handler, c *genericapiserver.Config) http.Handler {
			return genericapiserver.DefaultBuildHandlerChain(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				here = goroutineID()
				if _, limited := req.Context().Deadline(); !limited {
					t.Error("the request has no deadline")
				}
				if info, _ := request.RequestInfoFrom(req.Context()); c.LongRunningFunc(req, info) {
					t.Error("the filters of Kubernetes take the request for long-running")
				}
			}), c)
		}}
		if c.audited {
			config.AuditBackend = audit.Union()
			config.AuditPolicyRuleEvaluator = policy.NewFakePolicyRuleEvaluator(auditinternal.LevelNone, nil)
		}
		req := httptest.NewRequest(c.method, c.path, nil)
		req.Header.Set("Accept", accept)
		req.Header.Set("If-None-Match", c.tag)
		handler := chain.chain(nil, config)
		inline := handler.decideInline(req)
		if (inline == nil) != c.apart {
			t.Errorf("%+v: inline: %v", c, inline != nil)
		}
		for _, req := range []*http.Request{req, inline} {
			if req == nil {
				continue
			}
			here = ""
			handler.ServeHTTP(httptest.NewRecorder(), req)
			if here == "" || (here != goroutineID()) != c.apart {
				t.Errorf("%+v: served in goroutine %q, the test is %s", c, here, goroutineID())
			}
		}
		if req.Header.Set("Traceparent", "00-1-1-01"); handler.decideInline(req) != nil {
			t.Errorf("%+v: inline with a trace context", c)
		}
	}
}

// TestStackGrows checks, in new goroutines, that authentication moves the stack, and how
// much room a write has then. Filters and the configured authenticators must not have to
// grow the stack themselves.
func TestStackGrows(t *testing.T) {
	moves := func(grow func()) bool {
		var here byte
		at := func() uintptr { return uintptr(unsafe.Pointer(&here)) }
		before := at()
		grow()
		return before != at()
	}
	config := &genericapiserver.Config{TracerProvider: tracing.NewNoopTracerProvider(), FeatureGate: utilfeature.DefaultFeatureGate}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		if moves(func() { growstack.Grow(0) }) {
			t.Error("a configured authenticator runs on a small stack")
		}
		return nil, false, nil
	})
	var r authenticator.Request
	handler := chainBuilder{build: func(_ http.Handler, c *genericapiserver.Config) http.Handler {
		r = c.Authentication.Authenticator
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if moves(func() { growstack.GrowHalf(0) }) {
				t.Error("the filters begin on a small stack")
			}
		})
	}}.chain(nil, config)
	served := make(chan bool)
	go func() {
		defer close(served)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/apis", nil))
	}()
	<-served
	for _, c := range []struct {
		method string
		write  bool
	}{{http.MethodGet, false}, {http.MethodPut, true}} {
		req := httptest.NewRequest(c.method, "/apis", nil)
		moved, again := make(chan bool), make(chan bool)
		for range 2 {
			go func() {
				moved <- moves(func() { _, _, _ = r.AuthenticateRequest(req) })
				again <- moves(func() { growstack.GrowTwice(0) })
			}()
			if !<-moved {
				t.Errorf("%s: the stack was not grown", c.method)
			}
			if <-again == c.write {
				t.Errorf("%s: the stack has room for a write: %v", c.method, !c.write)
			}
		}
	}
}
