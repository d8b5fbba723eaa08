package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/component-base/metrics/legacyregistry"
)

// filterTrace records, in order, what a handler chain calls.
type filterTrace struct {
	mu    sync.Mutex
	calls []string
}

func (f *filterTrace) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// AuthenticateRequest implements authenticator.Request.
func (f *filterTrace) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	f.add("authenticate")
	name := req.Header.Get("X-User")
	return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}}, name != "", nil
}

// authorize is an authorizer.AuthorizerFunc.
func (f *filterTrace) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	f.add("authorize %s to %s %s%s", a.GetUser().GetName(), a.GetVerb(), a.GetResource(), a.GetPath())
	if a.GetUser().GetName() == "nobody" {
		return authorizer.DecisionDeny, "nobody may", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (f *filterTrace) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	f.add("policy")
	return audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}
}

// tracedAudit adds the stages of events to a trace.
type tracedAudit struct {
	audit.Backend
	*filterTrace
}

// ProcessEvents implements audit.Sink.
func (a tracedAudit) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		a.add("audit %s by %s as %v", e.Stage, e.User.Username, e.ImpersonatedUser != nil)
	}
	return true
}

// tracedResolver adds lookups of request infos to a trace.
type tracedResolver struct {
	request.RequestInfoResolver
	*filterTrace
}

// NewRequestInfo implements request.RequestInfoResolver.
func (r tracedResolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	r.add("info")
	return r.RequestInfoResolver.NewRequestInfo(req)
}

// tracedFairness adds requests that fairness admits to a trace.
type tracedFairness struct {
	fakeFairness
	*filterTrace
}

// Handle implements flowcontrol.Interface.
func (f tracedFairness) Handle(ctx context.Context, d flowcontrol.RequestDigest, note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, q fq.QueueNoteFn, execute func()) {
	f.add("fairness for %s", d.User.GetName())
	f.fakeFairness.Handle(ctx, d, note, estimate, q, execute)
}

// configure makes the configuration of filters that report to the trace.
func (f *filterTrace) configure(change func(*genericapiserver.Config)) *genericapiserver.Config {
	c := testConfig()
	c.CorsAllowedOriginList = []string{"^https://allowed$"}
	c.HSTSDirectives = []string{"max-age=1"}
	c.ShutdownWatchTerminationGracePeriod = time.Minute
	c.FlowControl = tracedFairness{fakeFairness{WatchTracker: flowcontrol.NewWatchTracker()}, f}
	c.AuditBackend, c.AuditPolicyRuleEvaluator = tracedAudit{filterTrace: f}, f
	if change != nil {
		change(c)
	}
	c.Authentication.Authenticator, c.Authorization.Authorizer = f, authorizer.AuthorizerFunc(f.authorize)
	c.RequestInfoResolver = tracedResolver{c.RequestInfoResolver, f}
	longRunning := c.LongRunningFunc
	c.LongRunningFunc = func(req *http.Request, info *request.RequestInfo) bool {
		f.add("long-running")
		return longRunning(req, info)
	}
	return c
}

// serve is the innermost handler. It records what the filters have put into the context.
func (f *filterTrace) serve(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	_, limited := ctx.Deadline()
	_, received := request.ReceivedTimestampFrom(ctx)
	_, tracked := request.LatencyTrackersFrom(ctx)
	_, audited := audit.AuditIDFrom(ctx)
	u, _ := request.UserFrom(ctx)
	f.add("serve %s: limited %v, received %v, tracked %v, audited %v, shutdown %v, routine %v",
		u.GetName(), limited, received, tracked, audited, request.ServerShutdownSignalFrom(ctx) != nil, routine.TaskFrom(ctx) != nil)
	warning.AddWarning(ctx, "", "careful")
	switch req.URL.Query().Get("do") {
	case "panic":
		panic("on request")
	case "wait":
		<-ctx.Done()
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

// filterCounts is how often each filter's latency was counted.
func filterCounts(t *testing.T) map[string]uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "apiserver_request_filter_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			counts[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	return counts
}

type filterRequest struct {
	method, url string
	header      map[string]string
}

// run sends a request through a chain. It returns all that can be seen of it.
func (f *filterTrace) run(t *testing.T, chain http.Handler, c filterRequest) string {
	t.Helper()
	req := httptest.NewRequest(c.method, c.url, nil)
	req.TLS, req.ProtoMajor = &tls.ConnectionState{}, 2
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	before := filterCounts(t)
	w := httptest.NewRecorder()
	var panicked any
	func() {
		defer func() { panicked = recover() }()
		chain.ServeHTTP(w, req)
	}()
	f.settle(t, c)
	f.mu.Lock()
	defer f.mu.Unlock()
	counted := map[string]uint64{}
	for name, n := range filterCounts(t) {
		if n > before[name] {
			counted[name] = n - before[name]
		}
	}
	w.Header().Del("Audit-Id")
	seen := fmt.Sprintf("%d %v %q panic %v\nfilters %v\n%s", w.Code, w.Header(), w.Body.String(), panicked != nil, counted, strings.Join(f.calls, "\n"))
	f.calls = nil
	return seen
}

// settle waits for the end of a request that the timeout filter has answered.
func (f *filterTrace) settle(t *testing.T, c filterRequest) {
	t.Helper()
	if !strings.Contains(c.url, "do=wait") {
		return
	}
	over := func(context.Context) (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !slices.Contains(f.calls, "policy") || slices.ContainsFunc(f.calls, func(call string) bool {
			return strings.HasPrefix(call, "audit ResponseComplete")
		}), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, over); err != nil {
		t.Fatalf("%s: the request does not end", c.url)
	}
}

// shutdownSignal is a request.ServerShutdownSignal.
type shutdownSignal chan struct{}

func (s shutdownSignal) ShuttingDown() <-chan struct{} { return s }

// learned returns our filters, after the first request, which a stand-in for Kubernetes'
// chain has served.
func learned(t *testing.T, api http.HandlerFunc, c *genericapiserver.Config, signal shutdownSignal, isTraced func(*http.Request) bool) http.Handler {
	t.Helper()
	stock := func(api http.Handler, _ *genericapiserver.Config) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			api.ServeHTTP(w, req.WithContext(request.WithServerShutdownSignal(req.Context(), signal)))
		})
	}
	f := newUntracedFilters(stock, isTraced, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/first" {
			api(w, req)
		}
	}), c)
	f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/first", nil))
	if f.ours.Load() == nil {
		t.Fatal("our chain has not begun")
	}
	return f
}

// TestOurFiltersAreKubernetes sends requests through both chains. All that a filter calls,
// sets and counts must be equal, and in the same order.
func TestOurFiltersAreKubernetes(t *testing.T) {
	as := func(name string, more ...string) map[string]string {
		h := map[string]string{"X-User": name}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	endpointmetrics.Register()
	requests := []filterRequest{
		{"GET", "/api/v1/pods", as("u")},
		{"GET", "/api/v1/namespaces/a/pods/p?pretty=1", as("u")},
		{"GET", watchURL, as("u")},
		{"POST", "/api/v1/namespaces/a/pods", as("u")},
		{"GET", "/healthz", as("u")},
		{"GET", "/api/v1/pods", as("nobody")},
		{"GET", "/api/v1/pods", nil},
		{"GET", "/api/v1/pods", as("u", "Impersonate-User", "other")},
		{"GET", "/api/v1/pods", as("u", "Impersonate-User", "nobody")},
		{"GET", "/api/v1/pods", as("u", "Origin", "https://allowed")},
		{"OPTIONS", "/api/v1/pods", as("u", "Origin", "https://allowed", "Access-Control-Request-Method", "GET")},
		{"GET", "/api/v1/pods?do=panic", as("u")},
		{"GET", "/api/v1/pods?do=wait&timeout=20ms", as("u")},
		{"GET", "/api/v1/pods?timeout=never", as("u")},
	}
	settings := map[string]func(*genericapiserver.Config){
		"default":     nil,
		"gates on":    func(c *genericapiserver.Config) { c.FeatureGate = fakeFeatureGate{enabled: true} },
		"gates off":   func(c *genericapiserver.Config) { c.FeatureGate = fakeFeatureGate{} },
		"no fairness": func(c *genericapiserver.Config) { c.FlowControl = nil },
		"no audit":    func(c *genericapiserver.Config) { c.AuditBackend, c.AuditPolicyRuleEvaluator = nil, nil },
		"no grace":    func(c *genericapiserver.Config) { c.ShutdownWatchTerminationGracePeriod = 0 },
		"retry after": func(c *genericapiserver.Config) { c.ShutdownSendRetryAfter = true },
		"go away": func(c *genericapiserver.Config) {
			c.SecureServing, c.GoawayChance = &genericapiserver.SecureServingInfo{}, 1
		},
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		var stock, ours filterTrace
		theirs := genericapiserver.DefaultBuildHandlerChain(http.HandlerFunc(stock.serve), stock.configure(settings[name]))
		chain := learned(t, ours.serve, ours.configure(settings[name]), make(shutdownSignal), func(*http.Request) bool { return false })
		for _, r := range requests {
			want, got := stock.run(t, theirs, r), ours.run(t, chain, r)
			if got != want {
				t.Errorf("%s: %s %s %v:\n%s\nKubernetes:\n%s", name, r.method, r.url, r.header, got, want)
			}
		}
	}
}

// TestOurFiltersNeedSignals checks that Kubernetes' chain serves until a request has come
// that shows all signals, and that the signals then have their effect.
func TestOurFiltersNeedSignals(t *testing.T) {
	var trace filterTrace
	config := trace.configure(func(c *genericapiserver.Config) { c.ShutdownSendRetryAfter = true })
	f := newUntracedFilters(genericapiserver.DefaultBuildHandlerChain, nil, http.HandlerFunc(trace.serve), config)
	trace.run(t, f, filterRequest{"GET", watchURL, map[string]string{"X-User": "u"}})
	if f.ours.Load() != nil {
		t.Error("our chain serves although the server is not complete")
	}
	signal := make(shutdownSignal)
	chain := learned(t, trace.serve, config, signal, func(*http.Request) bool { return false })
	close(signal)
	w := httptest.NewRecorder()
	chain.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d at a shutdown", w.Code)
	}
}

// BenchmarkFilters sends a GET of one object through Kubernetes' chain and through ours.
func BenchmarkFilters(b *testing.B) {
	api := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	config := testConfig()
	config.FlowControl = fakeFairness{WatchTracker: flowcontrol.NewWatchTracker()}
	for _, c := range []struct {
		name  string
		chain http.Handler
	}{
		{"Kubernetes", genericapiserver.DefaultBuildHandlerChain(http.HandlerFunc(api), config)},
		{"ours", chainBuilder{stockFilters: true, build: func(api http.Handler, c *genericapiserver.Config) http.Handler {
			return genericapiserver.DefaultBuildHandlerChain(complete(api), c)
		}}.chain(http.HandlerFunc(api), config)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.chain.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a/pods/p", nil))
			}
		})
	}
}
