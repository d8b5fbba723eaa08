package kube

import (
	"context"
	"net/http"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/audit"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/millrace/millrace/internal/account/panics"
)

// panicAnswer is the text of the answer of a handler that panics.
//
// Upstream: k8s.io/apiserver/pkg/server/filters.WithPanicRecovery; compare at each upgrade.
const panicAnswer = "This request caused apiserver to panic. Look in the logs for details."

// requestGuard keeps a panic from closing a connection. Kubernetes answers a request whose
// handler panics with 500, and then closes the connection with all other requests on it. Here
// the connection stays. An answer that has begun is cut short, so that no client takes it for
// complete.
//
//	guard.outside ─► Kubernetes' filters ─► guard.inside ─► handler
//	  counts 500s      panics of filters      panics of handlers
//	  and aborts       become 500             become 500, or an abort
//
// A nil requestGuard does nothing.
type requestGuard struct {
	counter *panics.Counter
	// failed is Hooks.Failed.
	failed func(group, resource string)
}

// SurvivePanics lets the goroutines of Kubernetes' controllers go on after a panic, as
// kube-apiserver did before it chose to end. counter counts them. It must be called before
// a server is built, and is for the whole process.
//
// Kubernetes' filters then swallow the panic by which a handler aborts its answer. So that
// panic is raised again, and requestGuard does what the filter would have done about it.
func SurvivePanics(counter *panics.Counter) {
	utilruntime.ReallyCrash = false
	raiseAborts := func(_ context.Context, value any) {
		if value == http.ErrAbortHandler {
			panic(value)
		}
	}
	count := func(_ context.Context, value any) { counter.Count(panics.Controller, value) }
	handlers := []func(context.Context, any){raiseAborts}
	utilruntime.PanicHandlers = append(append(handlers, utilruntime.PanicHandlers...), count)
}

// answerState tells how far an answer is. The responses of package h2 implement it. A
// statusRecorder does so for HTTP/1.1.
type answerState interface {
	// Status is the status of the answer. It is 0 before the answer has begun.
	Status() int
}

type answerStateKey struct{}

// answerStateOf returns the state of a request's answer, or nil if it is unknown.
func answerStateOf(w http.ResponseWriter, req *http.Request) answerState {
	if state, ok := responsewriter.GetOriginal(w).(answerState); ok {
		return state
	}
	state, _ := req.Context().Value(answerStateKey{}).(answerState)
	return state
}

// statusRecorder records the status of an answer over HTTP/1.1.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Status implements answerState.
func (r *statusRecorder) Status() int { return r.status }

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *statusRecorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// inside guards the handler of requests, after Kubernetes' filters.
func (g *requestGuard) inside(next http.Handler) http.Handler {
	if g == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			value := recover()
			switch {
			case value == nil:
				return
			case value == http.ErrAbortHandler:
				panic(value)
			}
			_ = g.counter.Recovered(panics.Request, value)
			if state := answerStateOf(w, req); state == nil || state.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, panicAnswer, http.StatusInternalServerError)
		}()
		next.ServeHTTP(w, req)
	})
}

// outside guards Kubernetes' filters. resolver finds the resource of a request that has failed.
func (g *requestGuard) outside(filters http.Handler, resolver request.RequestInfoResolver) http.Handler {
	if g == nil {
		return filters
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		state, ok := responsewriter.GetOriginal(w).(answerState)
		if !ok {
			recorder := &statusRecorder{ResponseWriter: w}
			w, state = responsewriter.WrapForHTTP1Or2(recorder), recorder
			req = req.WithContext(context.WithValue(req.Context(), answerStateKey{}, answerState(recorder)))
		}
		defer func() {
			if value := recover(); value != nil {
				g.aborted(req, resolver)
				panic(value)
			}
			if state.Status() == http.StatusInternalServerError {
				g.countFailure(req, resolver)
			}
		}()
		filters.ServeHTTP(w, req)
	})
}

// aborted counts and logs an answer that was cut short, as Kubernetes' filter does.
//
// Upstream: k8s.io/apiserver/pkg/server/filters.WithPanicRecovery; compare at each upgrade.
func (g *requestGuard) aborted(req *http.Request, resolver request.RequestInfoResolver) {
	info, err := resolver.NewRequestInfo(req)
	if err != nil {
		info = nil
	}
	endpointmetrics.RecordRequestAbort(req, info)
	utilruntime.HandleErrorWithContext(req.Context(), nil, "Timeout or abort while handling", "method", req.Method, "URI", req.RequestURI,
		"auditID", audit.GetAuditIDTruncated(req.Context()))
}

// countFailure counts an answer with 500 by its resource.
func (g *requestGuard) countFailure(req *http.Request, resolver request.RequestInfoResolver) {
	info, err := resolver.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest {
		g.failed("", "")
		return
	}
	g.failed(info.APIGroup, info.Resource)
}
