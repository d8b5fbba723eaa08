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

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/conn/growstack"
)

// watchChain lets a watch leave Kubernetes' filters once it has begun. That releases
// the filters' deep stack. The filters' work at a request's end waits for the end of
// the watch.
//
//	request's goroutine              filters' goroutine
//	ServeHTTP ──────────────────────► filters ─► innermost handler:
//	    │ waits                                  stores the rest of the watch in the Task
//	    │ ◄──────────────────────────────────────returns
//	runs the Task: the rest of the watch
//	audit, metrics, fairness: the watch has ended
//
// Kubernetes has the same with the alpha feature gate APIServingWithRoutine. But there,
// audit, metrics, the count of watches for fairness, and the wait at shutdown end with the
// filters.
//
// Upstream: k8s.io/apiserver/pkg/server/routine.WithRoutine; compare at each upgrade.
type watchChain struct {
	filters  http.Handler
	resolver request.RequestInfoResolver
	// afterFilters runs the rest of a watch, inside Kubernetes' handling of panics.
	afterFilters http.Handler
	// shutdownWaitGroup has the watches that a shutdown waits for. It is nil if a
	// shutdown waits for no watch.
	shutdownWaitGroup genericfilters.RequestWaitGroup
	// guard may be nil.
	guard *requestGuard
}

// watchRequest is the state of a watch in a watchChain.
type watchRequest struct {
	task routine.Task
	// ctx is the innermost context. It is nil until the watch has left the filters.
	ctx context.Context
	// forget removes the watch from the watches that fairness counts. It is nil until the
	// watch has left the filters, and if fairness does not count the watch.
	forget flowcontrol.ForgetWatchFunc
	// guard is the chain's guard, and may be nil.
	guard *requestGuard
	// panicked is the value with which the watch panicked after it had left the filters.
	panicked any
}

type watchRequestKey struct{}

func watchRequestFrom(ctx context.Context) *watchRequest {
	watch, _ := ctx.Value(watchRequestKey{}).(*watchRequest)
	return watch
}

// newWatchChain builds filters around api, a handler that may leave the rest of a watch
// to its routine.Task. c must be a completed configuration.
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
		growstack.GrowHalf(uint(len(req.URL.Path))) // a watch keeps its server's goroutine, so the next request has a new stack
		c.filters.ServeHTTP(w, req)
		return
	}
	if c.shutdownWaitGroup != nil && c.shutdownWaitGroup.Add(1) == nil {
		// Audit receives the end of a watch before the server has shut down.
		defer c.shutdownWaitGroup.Done()
	}
	watch := &watchRequest{guard: c.guard}
	ctx := audit.WithAuditContext(request.WithRequestInfo(req.Context(), info))
	req = req.WithContext(routine.WithTask(context.WithValue(ctx, watchRequestKey{}, watch), &watch.task))
	c.filter(w, req)
	if watch.task.Func != nil {
		c.afterFilters.ServeHTTP(w, req)
	}
	auditComplete(req.Context())
}

// watchInfo returns the RequestInfo of a watch. It returns nil for any other request.
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

// filter runs the filters in another goroutine, waits, and passes a panic on.
func (c *watchChain) filter(w http.ResponseWriter, req *http.Request) {
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		growstack.GrowHalf(uint(len(req.URL.Path)))
		c.filters.ServeHTTP(w, req)
	}()
	if p := <-panicked; p != nil {
		panic(p)
	}
}

// runTask runs the rest of a watch that has left the filters.
func runTask(_ http.ResponseWriter, req *http.Request) {
	watch := watchRequestFrom(req.Context())
	watch.task.Func()
	if watch.panicked != nil {
		panic(watch.panicked)
	}
}

// detachWatches wraps the innermost handler. A watch whose handler has stored a task
// leaves the filters when that handler returns. A watch that is traced does not: its
// spans end with the filters.
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

// run serves the rest of a watch that has left the filters. It keeps a panic for runTask,
// where Kubernetes logs it with the request.
func (watch *watchRequest) run(serve func()) {
	defer func() {
		if p := recover(); p != nil {
			watch.panicked = p
			switch {
			case p == http.ErrAbortHandler:
			case watch.guard != nil:
				_ = watch.guard.counter.Recovered(panics.Request, p)
				watch.panicked = http.ErrAbortHandler // the answer has begun
			default:
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

// watchTracker keeps a watch that has left the filters among the watches that fairness
// counts.
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

// requestInfoFromContext resolves a request's info from its context, if it is there.
type requestInfoFromContext struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (r requestInfoFromContext) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	if info, ok := request.RequestInfoFrom(req.Context()); ok {
		return info, nil
	}
	return r.RequestInfoResolver.NewRequestInfo(req)
}

// hideTask hides a request's task from Kubernetes' own handlers, because the metrics of
// their requests would not wait for it. If the feature gate APIServingWithRoutine is on,
// the task is theirs.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.handleWatch; compare at each upgrade.
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
