package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routine"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/component-base/featuregate"
)

// auditLog is an audit backend that records stages and status codes.
type auditLog struct {
	audit.Backend
	refuse bool
	mu     struct {
		sync.Mutex
		stages []string
	}
}

// ProcessEvents implements audit.Sink.
func (l *auditLog) ProcessEvents(all ...*auditinternal.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range all {
		code := int32(0)
		if event.ResponseStatus != nil {
			code = event.ResponseStatus.Code
		}
		l.mu.stages = append(l.mu.stages, fmt.Sprint(event.Stage, " ", code))
	}
	return !l.refuse
}

func (l *auditLog) stages() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.mu.stages, ", ")
}

// fakeFairness admits every request and counts watches as Kubernetes does.
type fakeFairness struct {
	flowcontrol.Interface
	flowcontrol.WatchTracker
}

// Handle implements flowcontrol.Interface.
func (fakeFairness) Handle(_ context.Context, _ flowcontrol.RequestDigest, note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, execute func()) {
	note(&flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{}, "")
	execute()
}

func (f fakeFairness) GetInterestedWatchCount(info *request.RequestInfo) int {
	return f.WatchTracker.GetInterestedWatchCount(info)
}

func (f fakeFairness) RegisterWatch(req *http.Request) flowcontrol.ForgetWatchFunc {
	return f.WatchTracker.RegisterWatch(req)
}

func (fakeFairness) GetMaxSeats(string) uint64 { return 1 }

// watchCount is the number of watches of config maps.
func (f fakeFairness) watchCount() int {
	return f.GetInterestedWatchCount(&request.RequestInfo{IsResourceRequest: true, Verb: "update", Resource: "configmaps", Namespace: "a", Name: "b"})
}

// watchServer is Kubernetes' filters around a handler of watches.
type watchServer struct {
	*handlerChain
	events        *auditLog
	fair          fakeFairness
	shutdownGroup *waitgroup.RateLimitedSafeWaitGroup
}

func newWatchServer(omit []auditinternal.Stage, change func(*genericapiserver.Config), api http.HandlerFunc) *watchServer {
	s := &watchServer{events: &auditLog{}, fair: fakeFairness{WatchTracker: flowcontrol.NewWatchTracker()}}
	config := testConfig()
	config.ShutdownWatchTerminationGracePeriod = time.Minute
	s.shutdownGroup = config.WatchRequestWaitGroup
	config.FlowControl = s.fair
	config.AuditBackend = s.events
	config.AuditPolicyRuleEvaluator = policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, omit)
	if change != nil {
		change(config)
	}
	s.handlerChain = chainBuilder{build: genericapiserver.DefaultBuildHandlerChain}.chain(api, config)
	return s
}

// ask sends a request. It returns the status, and the value with which the server
// panicked.
func (s *watchServer) ask(url string) (code int, panicked any) {
	w := httptest.NewRecorder()
	defer func() { panicked = recover() }()
	defer func() { code = w.Code }()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return
}

const watchURL = "/api/v1/namespaces/a/configmaps?watch=1"

// shutsDown reports whether a shutdown would have nothing to wait for.
func (s *watchServer) shutsDown(t *testing.T) bool {
	t.Helper()
	before, _, _ := s.shutdownGroup.Wait(func(int) (waitgroup.RateLimiter, context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		return noLimiter{}, ctx, cancel
	})
	return before == 0
}

type noLimiter struct{}

func (noLimiter) Wait(context.Context) error { return nil }

// TestWatchLeavesFilters has a watch that has left the filters. Audit, fairness and
// shutdown must see its end when the watch ends.
func TestWatchLeavesFilters(t *testing.T) {
	var innermost string
	begun, end := make(chan bool), make(chan bool)
	s := newWatchServer(nil, nil, func(w http.ResponseWriter, req *http.Request) {
		innermost = goroutineID()
		w.WriteHeader(http.StatusOK)
		flowcontrol.WatchInitialized(req.Context())
		routine.TaskFrom(req.Context()).Func = func() {
			if innermost == goroutineID() {
				t.Error("the watch is served where its filters ran")
			}
			begun <- true
			<-end
		}
	})
	done := make(chan bool)
	go func() {
		defer close(done)
		if code, panicked := s.ask(watchURL); code != http.StatusOK || panicked != nil {
			t.Errorf("status %d, panic %v", code, panicked)
		}
	}()
	<-begun
	if got, want := s.events.stages(), "RequestReceived 0, ResponseStarted 200"; got != want {
		t.Errorf("audit of an open watch: %s, not %s", got, want)
	}
	if n := s.fair.watchCount(); n != 1 {
		t.Errorf("fairness counts %d watches, not 1", n)
	}
	if s.shutsDown(t) {
		t.Error("a shutdown would not wait for an open watch")
	}
	close(end)
	<-done
	if got, want := s.events.stages(), "RequestReceived 0, ResponseStarted 200, ResponseComplete 200"; got != want {
		t.Errorf("audit of a watch that has ended: %s, not %s", got, want)
	}
	if n := s.fair.watchCount(); n != 0 {
		t.Errorf("fairness counts %d watches that have ended", n)
	}
	if !s.shutsDown(t) {
		t.Error("a shutdown would wait for a watch that has ended")
	}
}

// TestWatchAudit compares the audit of watches with that of Kubernetes' filters alone.
func TestWatchAudit(t *testing.T) {
	begin := func(rest func()) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(http.StatusOK)
			if task := routine.TaskFrom(req.Context()); task != nil {
				task.Func = rest
				return
			}
			rest()
		}
	}
	nobody := func(c *genericapiserver.Config) {
		c.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
	}
	for _, c := range []struct {
		name   string
		url    string
		omit   []auditinternal.Stage
		change func(*genericapiserver.Config)
		refuse bool
		api    http.HandlerFunc
	}{
		{name: "ends", api: begin(func() {})},
		{name: "by the path of old", url: "/api/v1/watch/configmaps", api: begin(func() {})},
		{name: "no end", omit: []auditinternal.Stage{auditinternal.StageResponseComplete}, api: begin(func() {})},
		{name: "nothing else", omit: []auditinternal.Stage{auditinternal.StageRequestReceived, auditinternal.StageResponseStarted}, api: begin(func() {})},
		{name: "panics later", api: begin(func() { panic("later") })},
		{name: "is cut off later", api: begin(func() { panic(http.ErrAbortHandler) })},
		{name: "panics at once", api: func(http.ResponseWriter, *http.Request) { panic("at once") }},
		{name: "says nothing", api: func(http.ResponseWriter, *http.Request) {}},
		{name: "fails", api: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }},
		{name: "nobody", change: nobody, api: begin(func() {})},
		{name: "refused", refuse: true, api: begin(func() {})},
		{name: "no watch", url: "/api/v1/configmaps?labelSelector=watch", api: begin(func() {})},
		{name: "none", change: func(c *genericapiserver.Config) {
			c.AuditPolicyRuleEvaluator = policy.NewFakePolicyRuleEvaluator(auditinternal.LevelNone, nil)
		}, api: begin(func() {})},
	} {
		if c.url == "" {
			c.url = watchURL
		}
		var stock *handlerChain
		s := newWatchServer(c.omit, func(config *genericapiserver.Config) {
			if c.change != nil {
				c.change(config)
			}
			stock = &handlerChain{filters: genericapiserver.DefaultBuildHandlerChain(c.api, config)}
		}, c.api)
		s.events.refuse = c.refuse
		theirs := &watchServer{handlerChain: stock, events: s.events}
		wantCode, wantPanic := theirs.ask(c.url)
		want := s.events.stages()
		s.events.mu.stages = nil
		code, panicked := s.ask(c.url)
		if got := s.events.stages(); got != want || code != wantCode || (panicked != nil) != (wantPanic != nil) {
			t.Errorf("%s: status %d, panic %v, audit %s; Kubernetes: status %d, panic %v, audit %s",
				c.name, code, panicked, got, wantCode, wantPanic, want)
		}
		if n := s.fair.watchCount(); n != 0 {
			t.Errorf("%s: fairness counts %d watches that have ended", c.name, n)
		}
	}
}

// TestTaskIsHiddenFromKubernetes checks that Kubernetes' own handlers see a watch's task
// only with the feature gate.
func TestTaskIsHiddenFromKubernetes(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		c := &genericapiserver.Config{FeatureGate: fakeFeatureGate{enabled: enabled}}
		var seen *routine.Task
		handler := hideTask(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen = routine.TaskFrom(req.Context()) }), c)
		req := httptest.NewRequest(http.MethodGet, watchURL, nil)
		handler.ServeHTTP(httptest.NewRecorder(), req.WithContext(routine.WithTask(req.Context(), &routine.Task{})))
		if (seen != nil) != enabled {
			t.Errorf("feature gate %v: seen %v", enabled, seen != nil)
		}
	}
}

// TestPolicyStagesAreNotChanged checks that the list of omitted stages of a policy stays
// as it is.
func TestPolicyStagesAreNotChanged(t *testing.T) {
	omit := slices.Grow([]auditinternal.Stage{auditinternal.StageRequestReceived}, 4)
	s := newWatchServer(omit, nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s.ask(watchURL)
	if more := omit[:2][1]; more != "" {
		t.Errorf("the policy leaves out %q too", more)
	}
}

// fakeFeatureGate is a feature gate with all features on, or all off.
type fakeFeatureGate struct {
	featuregate.FeatureGate
	enabled bool
}

// Enabled implements featuregate.FeatureGate.
func (g fakeFeatureGate) Enabled(featuregate.Feature) bool { return g.enabled }
