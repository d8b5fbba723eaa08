package handler_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/replica/handler"
	"github.com/millrace/millrace/internal/tier/read"
)

// TestReadsOnly sends reads, questions and requests that might change something to a
// replica that answers reads only.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	h := setup{readsOnly: true}.handler(t, u)
	token := bearer("tom")
	const pod = "/api/v1/namespaces/n/pods/p"
	upgrade := http.Header{"Authorization": token["Authorization"], "Upgrade": {"websocket"}, "Connection": {"Upgrade"}}
	for _, c := range []struct {
		testRequest
		want string
	}{
		{testRequest{"GET", pods, "", token}, "tier"}, {testRequest{"GET", pod + "/log", "", token}, "upstream"},
		{testRequest{"GET", "/apis", "", token}, "upstream"}, {testRequest{"HEAD", pods, "", token}, ""},
		{testRequest{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", token}, "upstream"},
		{testRequest{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "", token}, "upstream"},
		{testRequest{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "", token}, "upstream"},
		{testRequest{"POST", "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews", "", token}, "upstream"},
		{testRequest{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "", token}, "upstream"},
		{testRequest{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "", token}, "upstream"},
		{testRequest{"POST", pods, "", token}, "write"}, {testRequest{"PUT", pod, "", token}, "write"},
		{testRequest{"PATCH", pod, "", token}, "write"}, {testRequest{"DELETE", pods, "", token}, "write"},
		{testRequest{"POST", pods + "?dryRun=All", "", token}, "write"}, {testRequest{"POST", pod + "/eviction", "", token}, "write"},
		{testRequest{"POST", "/api/v1/namespaces/n/serviceaccounts/s/token", "", token}, "write"},
		{testRequest{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x", "", token}, "write"},
		{testRequest{"POST", pod + "/exec", "", token}, "write"}, {testRequest{"GET", pod + "/exec", "", upgrade}, "write"},
		{testRequest{"GET", pod + "/exec", "", token}, "write"}, {testRequest{"GET", pod + "/attach", "", token}, "write"}, {testRequest{"GET", pod + "/portforward", "", token}, "write"},
		{testRequest{"GET", "/api/v1/nodes/n/proxy/run", "", token}, "write"}, {testRequest{"GET", "/api/v1/proxy/nodes/n", "", token}, "write"},
		{testRequest{"GET", "/apis/other.example.org/v1/namespaces/n/machines/m/console", "", upgrade}, "write"},
		{testRequest{"GET", "/openapi/v3/../.." + pod + "/exec", "", token}, "write"}, {testRequest{"GET", "/apis/%2e%2e" + pod + "/exec", "", upgrade}, "write"},
		{testRequest{"GET", "/version//x", "", token}, "write"}, {testRequest{"GET", "/version/.", "", token}, "write"}, {testRequest{"GET", "/version/", "", token}, "upstream"},
		{testRequest{"GET", pod + "/log", "", upgrade}, "upstream"}, {testRequest{"POST", "/logs", "", token}, "write"},
	} {
		got := c.to(h)
		switch body := got.Body.String(); {
		case c.want != "write":
			if got.Code != http.StatusOK || !strings.Contains(body, c.want) {
				t.Errorf("%s %s: %d %s, want an answer of the %s", c.method, c.path, got.Code, body, c.want)
			}
		case got.Code != http.StatusMethodNotAllowed || !strings.Contains(body, `"reason":"MethodNotAllowed"`) ||
			!strings.Contains(body, "https://api.example.org") || got.Header().Get("Allow") == "":
			t.Errorf("%s %s: %d %s, want 405 with the address to write to", c.method, c.path, got.Code, body)
		}
	}
	if body := (testRequest{"POST", pods, "", nil}).to(h).Body.String(); strings.Contains(body, "api.example.org") || !strings.Contains(body, "kubeconfig") {
		t.Errorf("a stranger is told: %s", body)
	}
}

// TestBudgetIsUsedUp charges a client, and checks which of its requests, and of others, are
// refused.
func TestBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	clock := clocktesting.NewFakeClock(time.Now())
	budgets := usage.NewBudgets(usage.BudgetConfig{Bytes: 600, Clock: clock})
	accounts := usage.NewAccounts(usage.Config{Budgets: budgets, Clock: clock})
	h := setup{budgets: budgets}.handler(t, u)
	accounts.Observe(&usage.Request{Client: serverreport.NewClient("tom", "agent"), Address: "192.0.2.1:99", Cost: serverreport.ListCost{Bytes: 700}})

	got := testRequest{"GET", pods, "", bearer("tom")}.to(h)
	if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "11" || !strings.Contains(got.Body.String(), "budget of bytes") {
		t.Errorf("%d, Retry-After %q, %s", got.Code, got.Header().Get("Retry-After"), got.Body)
	}
	for _, c := range []testRequest{{"POST", pods, "", bearer("tom")}, {"GET", "/apis", "", bearer("tom")}, {"GET", pods, "carol", nil}} {
		if got := c.to(h); got.Code == http.StatusTooManyRequests {
			t.Errorf("%s %s of %q: %d", c.method, c.path, c.certificate, got.Code)
		}
	}
	clock.Step(11 * time.Second)
	if got := (testRequest{"GET", pods, "", bearer("tom")}).to(h); got.Code != http.StatusOK {
		t.Errorf("after the time: %d %s", got.Code, got.Body)
	}
}

// TestBudgetCoversWhatIsPassedOn: bytes of reads that the upstream answers are charged, those of watches
// and of others than the client are not.
func TestBudgetCoversWhatIsPassedOn(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	budgets := usage.NewBudgets(usage.BudgetConfig{Bytes: 40, Clock: clocktesting.NewFakeClock(time.Now())})
	h := setup{budgets: budgets, refuses: handler.Excluded}.handler(t, u)
	for _, c := range []testRequest{{"POST", pods, "", bearer("tom")}, {"GET", pods + "?watch=1", "", bearer("tom")}, {"GET", pods, "", bearer("eve")}, {"GET", "/apis/x/y/z", "", nil}} {
		for range 10 {
			if got := c.to(h); got.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", c.method, c.path, got.Code, got.Body)
			}
		}
	}
	logs := testRequest{"GET", "/api/v1/namespaces/n/pods/p/log", "", bearer("tom")}
	for i := range 5 {
		got := logs.to(h)
		if over := got.Code == http.StatusTooManyRequests; over != (i >= 3) {
			t.Errorf("read %d of %q: %d", i, "upstream for tom", got.Code)
		}
	}
	// What the accounts charge, the handler does not charge once more.
	budgets = usage.NewBudgets(usage.BudgetConfig{Bytes: 40, Clock: clocktesting.NewFakeClock(time.Now())})
	h = setup{budgets: budgets, refuses: handler.Excluded, accounted: read.Accounted}.handler(t, u)
	list := testRequest{"GET", pods, "", bearer("tom")}
	for i := range 10 {
		if got := list.to(h); got.Code != http.StatusOK {
			t.Errorf("list %d: %d", i, got.Code)
		}
	}
	for i := range 5 {
		got := logs.to(h)
		if over := got.Code == http.StatusTooManyRequests; over != (i >= 3) {
			t.Errorf("read %d after lists: %d", i, got.Code)
		}
	}
}
