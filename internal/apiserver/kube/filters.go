package kube

import (
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/filterlatency"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/routine"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// untracedFilters are Kubernetes' filters, but the tracing filter sees only requests that
// have a trace context. Kubernetes has no setting for that.
//
// Some filters need signals of the server that only Kubernetes' own chain is given. So
// that chain serves the first requests. Its innermost handler finds the signals in their
// contexts, and makes our chain:
//
//	Kubernetes' chain ──► all paths are installed, and a watch has come ──► our chain
//
// The watch tells the signal of shutdowns. It is not waited for where no setting needs that
// signal. The server's own informers watch, so our chain begins soon after the server. Filters
// count the requests of each chain apart, which matters only for requests from before.
type untracedFilters struct {
	api      http.Handler
	config   *genericapiserver.Config
	isTraced func(*http.Request) bool
	stock    http.Handler
	// ours is nil until the signals are known.
	ours atomic.Pointer[http.Handler]

	mu struct {
		sync.Mutex
		installed    bool
		shuttingDown request.ServerShutdownSignal
	}
}

// newUntracedFilters builds filters around api. stock builds Kubernetes' filters.
func newUntracedFilters(stock chainBuild, isTraced func(*http.Request) bool, api http.Handler, c *genericapiserver.Config) *untracedFilters {
	f := &untracedFilters{api: api, config: c, isTraced: isTraced}
	f.stock = stock(http.HandlerFunc(f.learn), c)
	return f
}

// ServeHTTP implements http.Handler.
func (f *untracedFilters) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if ours := f.ours.Load(); ours != nil {
		(*ours).ServeHTTP(w, req)
		return
	}
	f.stock.ServeHTTP(w, req)
}

// learn is the innermost handler of Kubernetes' chain.
func (f *untracedFilters) learn(w http.ResponseWriter, req *http.Request) {
	if f.ours.Load() == nil {
		f.takeSignals(req)
	}
	f.api.ServeHTTP(w, req)
}

// takeSignals takes the signals from a request that has passed Kubernetes' filters, and
// makes our chain once all are known.
func (f *untracedFilters) takeSignals(req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if genericapifilters.NoMuxAndDiscoveryIncompleteKey(req.Context()) {
		f.mu.installed = true
	}
	if signal := request.ServerShutdownSignalFrom(req.Context()); signal != nil {
		f.mu.shuttingDown = signal
	}
	needed := f.config.ShutdownWatchTerminationGracePeriod > 0 || f.config.ShutdownSendRetryAfter
	if f.mu.installed && (f.mu.shuttingDown != nil || !needed) && f.ours.Load() == nil {
		ours := f.build(f.mu.shuttingDown)
		f.ours.Store(&ours)
	}
}

// build builds our chain. It lacks the filter that marks requests which come before all
// paths are installed: they are installed by now.
//
// Upstream: k8s.io/apiserver/pkg/server.DefaultBuildHandlerChain; compare at each upgrade.
func (f *untracedFilters) build(shuttingDown request.ServerShutdownSignal) http.Handler {
	c := f.config
	h := f.behindAuthentication()
	failed := genericapifilters.WithFailedAuthenticationAudit(genericapifilters.Unauthorized(c.Serializer), c.AuditBackend, c.AuditPolicyRuleEvaluator)
	failed = filterlatency.TrackCompleted(failed)
	h = filterlatency.TrackCompleted(f.withTracing(h))
	h = genericapifilters.WithAuthentication(h, c.Authentication.Authenticator, failed, c.Authentication.APIAudiences, c.Authentication.RequestHeaderConfig)
	h = filterlatency.TrackStarted(h, c.TracerProvider, "authentication")
	h = genericfilters.WithCORS(h, c.CorsAllowedOriginList, nil, nil, nil, "true")
	h = genericapifilters.WithWarningRecorder(h)
	h = genericfilters.WithTimeoutForNonLongRunningRequests(h, c.LongRunningFunc)
	h = genericapifilters.WithRequestDeadline(h, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc, c.Serializer, c.RequestTimeout)
	h = genericfilters.WithWaitGroup(h, c.LongRunningFunc, c.NonLongRunningRequestWaitGroup)
	if c.ShutdownWatchTerminationGracePeriod > 0 {
		h = genericfilters.WithWatchTerminationDuringShutdown(h, shuttingDown, c.WatchRequestWaitGroup)
	}
	if c.SecureServing != nil && !c.SecureServing.DisableHTTP2 && c.GoawayChance > 0 {
		h = genericfilters.WithProbabilisticGoaway(h, c.GoawayChance)
	}
	h = genericapifilters.WithCacheControl(h)
	h = genericfilters.WithHSTS(h, c.HSTSDirectives)
	if c.ShutdownSendRetryAfter {
		h = genericfilters.WithRetryAfter(h, shuttingDown.ShuttingDown())
	}
	h = genericfilters.WithHTTPLogging(h)
	h = genericapifilters.WithLatencyTrackers(h)
	if c.FeatureGate.Enabled(features.APIServingWithRoutine) {
		h = routine.WithRoutine(h, c.LongRunningFunc)
	}
	h = genericapifilters.WithRequestInfo(h, c.RequestInfoResolver)
	h = genericapifilters.WithRequestReceivedTimestamp(h)
	h = genericfilters.WithPanicRecovery(h, c.RequestInfoResolver)
	return genericapifilters.WithAuditInit(h)
}

// behindAuthentication builds the filters that an authenticated request passes.
//
// Upstream: k8s.io/apiserver/pkg/server.DefaultBuildHandlerChain; compare at each upgrade.
func (f *untracedFilters) behindAuthentication() http.Handler {
	c := f.config
	h := f.tracked("authorization", f.api, func(next http.Handler) http.Handler {
		return genericapifilters.WithAuthorization(next, c.Authorization.Authorizer, c.Serializer)
	})
	if c.FlowControl == nil {
		h = genericfilters.WithMaxInFlightLimit(h, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight, c.LongRunningFunc)
	} else {
		estimator := flowcontrolrequest.NewWorkEstimator(c.StorageObjectCountTracker.Get, c.FlowControl.GetInterestedWatchCount,
			flowcontrolrequest.DefaultWorkEstimatorConfig(), c.FlowControl.GetMaxSeats)
		h = f.tracked("priorityandfairness", h, func(next http.Handler) http.Handler {
			return genericfilters.WithPriorityAndFairness(next, c.LongRunningFunc, c.FlowControl, estimator, c.RequestTimeout/4)
		})
	}
	if c.FeatureGate.Enabled(features.ConstrainedImpersonation) {
		h = f.tracked("constrainedimpersonation", h, func(next http.Handler) http.Handler {
			return impersonation.WithConstrainedImpersonation(next, c.Authorization.Authorizer, c.Serializer)
		})
	} else {
		h = f.tracked("impersonation", h, func(next http.Handler) http.Handler {
			return impersonation.WithImpersonation(next, c.Authorization.Authorizer, c.Serializer)
		})
	}
	return f.tracked("audit", h, func(next http.Handler) http.Handler {
		return genericapifilters.WithAudit(next, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc)
	})
}

// tracked puts a filter in front of a handler, and counts its latency by its name.
func (f *untracedFilters) tracked(name string, next http.Handler, filter func(http.Handler) http.Handler) http.Handler {
	return filterlatency.TrackStarted(filter(filterlatency.TrackCompleted(next)), f.config.TracerProvider, name)
}

// withTracing applies the tracing filter to requests that have a trace context.
func (f *untracedFilters) withTracing(next http.Handler) http.Handler {
	traced := genericapifilters.WithTracing(next, f.config.TracerProvider)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if f.isTraced(req) {
			traced.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
