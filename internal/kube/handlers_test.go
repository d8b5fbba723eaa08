package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"unsafe"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/tracing"
)

// otherProvider is not the one that is there without a configuration.
type otherProvider struct{ tracing.TracerProvider }

// TestTraceContextIsPassedOn asks which requests go through the tracing filter:
// those with a trace context, and all of them where traces go somewhere.
func TestTraceContextIsPassedOn(t *testing.T) {
	build := chainBuilder(func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprint(w, "tracing ", c.FeatureGate.Enabled(features.APIServerTracing), ", others ", c.FeatureGate.Enabled(features.APIServerIdentity), ", ")
			api.ServeHTTP(w, req)
		})
	})
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "answered") })
	for _, c := range []struct {
		provider     tracing.TracerProvider
		header, want string
	}{
		{tracing.NewNoopTracerProvider(), "", "tracing false, others true, answered"},
		{tracing.NewNoopTracerProvider(), "Traceparent", "tracing true, others true, answered"},
		{tracing.NewNoopTracerProvider(), "Baggage", "tracing true, others true, answered"},
		{otherProvider{tracing.NewNoopTracerProvider()}, "", "tracing true, others true, answered"},
	} {
		handler := build.lean(api, &genericapiserver.Config{TracerProvider: c.provider, FeatureGate: utilfeature.DefaultFeatureGate})
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.header != "" {
			req.Header.Set(c.header, "00-1-1-01")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if got := w.Body.String(); got != c.want {
			t.Errorf("%T, header %q: %s, not %s", c.provider, c.header, got, c.want)
		}
	}
}

// TestStackGrows asks in a new goroutine, as each request has one, whether its stack is
// moved when authentication is asked.
func TestStackGrows(t *testing.T) {
	r := roomy{authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })}
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	moved := make(chan bool)
	for range 2 {
		go func() {
			var here byte
			before := uintptr(unsafe.Pointer(&here))
			_, _, _ = r.AuthenticateRequest(req)
			moved <- before != uintptr(unsafe.Pointer(&here))
		}()
		if !<-moved {
			t.Error("the stack was not grown")
		}
	}
}
