package read_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/wire/encode"
)

func keysOf(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("one/%04d", i)
	}
	return all
}

// TestPlans asks how lists are found.
func TestPlans(t *testing.T) {
	env := newTestTier(t)
	env.load(t, keysOf(1000)...)
	explain := http.Header{"X-Millrace-Explain": {"1"}}
	byLabel := listPath + "?labelSelector=name%3D0007"
	for _, c := range []struct{ target, plan string }{
		{listPath, "range; candidates=1000; selected=1000; scope=1000"},
		{listPath + "?limit=3", "range; candidates=1000; selected=3; scope=1000"},
		{listOnePath + "?fieldSelector=metadata.name%3D0001", "key; candidates=1; selected=1; scope=1"},
		{byLabel, "scan; candidates=1000; selected=1; scope=1000"},
		{byLabel, "scan; candidates=1000; selected=1; scope=1000"},
		{byLabel, "index of label name; candidates=1; selected=1; scope=1000"},
	} {
		env.tier.SetAuthorizer(authorizerfactory.NewAlwaysAllowAuthorizer())
		if plan := env.send(t, http.MethodGet, c.target, explain).Header().Get("X-Millrace-Plan"); plan != c.plan {
			t.Errorf("%s: %q, want %q", c.target, plan, c.plan)
		}
	}
	if plan := env.send(t, http.MethodGet, listPath, nil).Header().Get("X-Millrace-Plan"); plan != "" {
		t.Errorf("told without being asked: %q", plan)
	}
}

// TestPlansTellNoMoreThanIsSelected asks for plans with a selector. The number of objects
// beyond the selector is only in the plan if the client may list without it.
func TestPlansTellNoMoreThanIsSelected(t *testing.T) {
	env := newTestTier(t)
	env.load(t, keysOf(10)...)
	explain := http.Header{"X-Millrace-Explain": {"1"}}
	byLabel, byName := listPath+"?labelSelector=name%3D0007", listOnePath+"?fieldSelector=metadata.name%3D0001"
	plan := func(target string) string {
		return env.send(t, http.MethodGet, target, explain).Header().Get("X-Millrace-Plan")
	}
	unselected := func(a authorizer.Attributes) bool {
		byField, err := a.GetFieldSelector()
		byLabel, otherErr := a.GetLabelSelector()
		return a.GetVerb() == "list" && a.GetResource() == "configmaps" && a.GetName() == "" && byField == nil && byLabel == nil && err == nil && otherErr == nil
	}
	decide := func(decision authorizer.Decision, err error) {
		env.tier.SetAuthorizer(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if !unselected(a) {
				t.Errorf("asked about %+v", a)
			}
			return decision, "", err
		}))
	}
	for _, step := range []struct {
		name   string
		do     func()
		counts bool
	}{
		{"nobody decides", func() {}, false},
		{"denied", func() { decide(authorizer.DecisionDeny, nil) }, false},
		{"no opinion", func() { decide(authorizer.DecisionNoOpinion, nil) }, false},
		{"no answer", func() { decide(authorizer.DecisionNoOpinion, errGone) }, false},
		{"allowed", func() { decide(authorizer.DecisionAllow, nil) }, true},
	} {
		step.do()
		for target, selected := range map[string]int{byLabel: 1, byName: 1, byLabel + "&limit=1": 1, listPath + "?labelSelector=name%3Dnone": 0} {
			got := plan(target)
			if strings.Contains(got, "candidates=") != step.counts || strings.Contains(got, "scope=") != step.counts || !strings.Contains(got, fmt.Sprintf("selected=%d", selected)) {
				t.Errorf("%s, %s: %q", step.name, target, got)
			}
		}
		if got, want := plan(listPath), "range; candidates=10; selected=10; scope=10"; got != want {
			t.Errorf("%s, a list without selectors: plan %q, want %q", step.name, got, want)
		}
	}
}

// TestWarming checks that objects are encoded, and compressed for gzip, before any client asks for
// them.
func TestWarming(t *testing.T) {
	start := func() (*testTier, *encode.Budget) {
		budget := encode.NewBudget(64 << 20)
		env := newTestTier(t, func(c *read.RouteConfig) { c.Shared.Budget = budget })
		env.load(t, keysOf(1000)...)
		return env, budget
	}
	read, plain := start()
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		if answer := read.send(t, http.MethodGet, listPath, http.Header{"Accept": {accept}}); answer.Code != http.StatusOK {
			t.Fatalf("%s: %d", accept, answer.Code)
		}
	}
	env, budget := start()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		env.tier.Warm(ctx)
	}()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return budget.UsedBytes() > plain.UsedBytes(), nil
	}); err != nil {
		t.Errorf("%d bytes were encoded, and LISTs without gzip encode %d", budget.UsedBytes(), plain.UsedBytes())
	}
	cancel()
	<-ended
}

// TestWarmingOrder has a budget whose share for warming one form fills: it is protobuf, unless a
// LIST has asked for JSON.
func TestWarmingOrder(t *testing.T) {
	for range 10 { // an order by chance is often right
		for _, asked := range []bool{false, true} {
			env, want := newTestTier(t, func(c *read.RouteConfig) { c.Shared.Budget = encode.NewBudget(40 << 10) }), "v1 protobuf"
			env.load(t, keysOf(3000)...)
			if asked {
				env.send(t, http.MethodGet, listPath+"?limit=1", http.Header{"Accept": {"application/json"}})
				want = "v1 json"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			env.tier.Warm(ctx)
			cancel()
			if kept := env.resource.Usage().Forms; kept[want] == 0 || len(kept) != 1 {
				t.Errorf("bytes are kept for %v, want %s alone", kept, want)
			}
		}
	}
}

// TestWarmingHeedsItsShare checks that warming leaves half of the budget to bytes that
// clients ask for.
func TestWarmingHeedsItsShare(t *testing.T) {
	for _, limit := range []int64{0, 40 << 10} {
		budget := encode.NewBudget(limit)
		env := newTestTier(t, func(c *read.RouteConfig) { c.Shared.Budget = budget })
		env.load(t, keysOf(3000)...)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		env.tier.Warm(ctx)
		cancel()
		if used := budget.UsedBytes(); used > limit*3/4 {
			t.Errorf("%d of %d bytes were used", used, limit)
		}
	}
}

// deadlineRecorder notes its deadlines.
type deadlineRecorder struct {
	http.ResponseWriter
	deadlines []time.Time
}

func (c *deadlineRecorder) SetWriteDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

// TestReadersHaveToKeepUp looks at the deadlines of a connection: large answers have one,
// and remove it at their end.
func TestReadersHaveToKeepUp(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "five/large", "four/large", "one/a", "one/large", "six/large", "three/large", "two/large")
	inner, client := env.handler, &deadlineRecorder{}
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		client.ResponseWriter = w
		inner.ServeHTTP(client, req)
	})
	env.send(t, http.MethodGet, listPath+"?fieldSelector=metadata.name%3Da", nil)
	if len(client.deadlines) != 0 {
		t.Errorf("deadlines of a small answer: %v", client.deadlines)
	}
	w := env.send(t, http.MethodGet, listPath, nil)
	if n := len(client.deadlines); n < 2 || !client.deadlines[n-1].IsZero() || time.Until(client.deadlines[0]) < 10*time.Second {
		t.Errorf("deadlines of a large answer: %v", client.deadlines)
	}
	if w.Code != http.StatusOK || strings.Count(w.Body.String(), `"name":"large"`) != 6 {
		t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
	}
}
