package kube

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/millrace/millrace/internal/stack"
)

// watchChain lets a watch leave Kubernetes' filters when it has begun, which gives back
// the stack that they took, while what they do at a request's end waits for the watch's.
//
// Its filters run in a goroutine of their own. The innermost handler leaves the rest of
// the watch as the function of the request's routine.Task, and returns. The request's own
// goroutine, which waited, calls that function. Kubernetes has the same behind the alpha
// feature gate APIServingWithRoutine, but there audit, metrics, the count of watches that
// fairness keeps, and the wait at shutdown end with the filters.
type watchChain struct {
	filters  http.Handler
	resolver request.RequestInfoResolver
	// afterFilters is what follows the filters, with Kubernetes' handling of panics.
	afterFilters http.Handler
	// shutdownWaitGroup is the watches that a shutdown waits for, nil if it waits for none.
	shutdownWaitGroup genericfilters.RequestWaitGroup
}

// watchRequest is a watch on its way through a watchChain.
type watchRequest struct {
	task routine.Task
	// ctx is the innermost context of a watch that has left the filters, nil before.
	ctx context.Context
	// forget ends the watch for fairness, nil if it does not count.
	forget flowcontrol.ForgetWatchFunc
	// panicked is what the watch panicked with behind the filters.
	panicked any
}

type watchRequestKey struct{}

func watchRequestFrom(ctx context.Context) *watchRequest {
	watch, _ := ctx.Value(watchRequestKey{}).(*watchRequest)
	return watch
}

// newWatchChain builds filters around a handler that may leave the rest of a watch to
// its task. The configuration is a complete one.
func newWatchChain(build chainBuild, api http.Handler, c *genericapiserver.Config) *watchChain {
	with := *c
	with.RequestInfoResolver = requestInfoFromContext{c.RequestInfoResolver}
	if c.FlowControl != nil {
		with.FlowControl = watchTracker{c.FlowControl}
	}
	if c.AuditBackend != nil && c.AuditPolicyRuleEvaluator != nil {
		with.AuditBackend = watchStageBackend{c.AuditBackend}
		with.AuditPolicyRuleEvaluator = watchPolicy{c.AuditPolicyRuleEvaluator}
	}
	chain := &watchChain{filters: build(detachWatches(api), &with), resolver: c.RequestInfoResolver}
	chain.afterFilters = genericfilters.WithPanicRecovery(http.HandlerFunc(runTask), with.RequestInfoResolver)
	if c.ShutdownWatchTerminationGracePeriod > 0 && c.WatchRequestWaitGroup != nil {
		chain.shutdownWaitGroup = c.WatchRequestWaitGroup
	}
	return chain
}

type chainBuild = func(http.Handler, *genericapiserver.Config) http.Handler

// ServeHTTP implements http.Handler.
func (c *watchChain) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info := c.watchInfo(req)
	if info == nil {
		stack.GrowHalf(uint(len(req.URL.Path))) // a watch holds its server's goroutine, so the next one has a new stack
		c.filters.ServeHTTP(w, req)
		return
	}
	if c.shutdownWaitGroup != nil && c.shutdownWaitGroup.Add(1) == nil {
		// Audit has the end of a watch before the server has shut down.
		defer c.shutdownWaitGroup.Done()
	}
	watch := &watchRequest{}
	ctx := audit.WithAuditContext(request.WithRequestInfo(req.Context(), info))
	req = req.WithContext(routine.WithTask(context.WithValue(ctx, watchRequestKey{}, watch), &watch.task))
	c.filter(w, req)
	if watch.task.Func != nil {
		c.afterFilters.ServeHTTP(w, req)
	}
	auditComplete(req.Context())
}

// watchInfo returns what a request for a watch asks for, nil for any other request.
func (c *watchChain) watchInfo(req *http.Request) *request.RequestInfo {
	if req.Method != http.MethodGet || c.resolver == nil ||
		!strings.Contains(req.URL.RawQuery, "watch") && !strings.Contains(req.URL.Path, "/watch/") {
		return nil
	}
	info, err := c.resolver.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest || info.Verb != "watch" {
		return nil
	}
	return info
}

// filter runs the filters in a goroutine of their own.
func (c *watchChain) filter(w http.ResponseWriter, req *http.Request) {
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		stack.GrowHalf(uint(len(req.URL.Path)))
		c.filters.ServeHTTP(w, req)
	}()
	if p := <-panicked; p != nil {
		panic(p)
	}
}

// runTask runs what follows the filters.
func runTask(_ http.ResponseWriter, req *http.Request) {
	watch := watchRequestFrom(req.Context())
	watch.task.Func()
	if watch.panicked != nil {
		panic(watch.panicked)
	}
}

// detachWatches wraps the innermost handler. A watch that left a task leaves the filters when
// that handler returns, but for one that is traced, whose spans end with the filters.
func detachWatches(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		api.ServeHTTP(w, req)
		task := routine.TaskFrom(req.Context())
		if task == nil || task.Func == nil {
			return
		}
		run := task.Func
		watch := watchRequestFrom(req.Context())
		if watch == nil || trace.SpanFromContext(req.Context()).IsRecording() {
			task.Func = nil
			run()
			return
		}
		watch.ctx = req.Context()
		task.Func = func() { watch.run(run) }
	})
}

// run serves the rest of a watch that has left the filters, and keeps a panic for what
// comes behind: a line of the log for the request.
func (watch *watchRequest) run(serve func()) {
	defer func() {
		if p := recover(); p != nil {
			watch.panicked = p
			if p != http.ErrAbortHandler {
				watch.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			auditPanic(watch.ctx, p)
		}
		if watch.forget != nil {
			watch.forget()
		}
	}()
	serve()
}

// watchTracker keeps a watch that has left the filters among those that fairness counts.
type watchTracker struct{ flowcontrol.Interface }

// RegisterWatch implements flowcontrol.WatchTracker.
func (t watchTracker) RegisterWatch(req *http.Request) flowcontrol.ForgetWatchFunc {
	forget := t.Interface.RegisterWatch(req)
	watch := watchRequestFrom(req.Context())
	if forget == nil || watch == nil {
		return forget
	}
	return func() {
		if watch.ctx == nil {
			forget()
			return
		}
		watch.forget = forget
	}
}

// requestInfoFromContext knows what a request asks for from its context, if that is there.
type requestInfoFromContext struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (r requestInfoFromContext) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	if info, ok := request.RequestInfoFrom(req.Context()); ok {
		return info, nil
	}
	return r.RequestInfoResolver.NewRequestInfo(req)
}

// hideTask hides a request's task from Kubernetes' own handlers: what counts their
// requests does not wait for one. With the feature gate it is theirs.
func hideTask(next http.Handler, c *genericapiserver.Config) http.Handler {
	if c.FeatureGate != nil && c.FeatureGate.Enabled(features.APIServingWithRoutine) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if routine.TaskFrom(req.Context()) != nil {
			req = req.WithContext(routine.WithTask(req.Context(), nil))
		}
		next.ServeHTTP(w, req)
	})
}
