package usage_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newAccounts(cfg usage.Config) (*usage.Accounts, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(start)
	cfg.Clock = clock
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return usage.NewAccounts(cfg), clock
}

// podList returns a LIST of all pods by a user.
func podList(user string) usage.Request {
	return usage.Request{
		Client: serverreport.NewClient(user, "agent/v1.2 (linux/amd64)"), Address: "10.0.0.1:4711", Known: true,
		Shape: serverreport.Shape{Verb: "list", Resource: "pods", Version: "v1", Scope: "cluster", Revision: "unset", Encoding: "json", Path: "range"},
		Cost:  serverreport.ListCost{Objects: 10, Scanned: 20, ScannedBytes: 200, Bytes: 1000, CPU: 0.5, Seconds: 1},
	}
}

func TestAccounts(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{})
	for range 3 {
		r := podList("alice")
		accounts.Observe(&r)
		clock.Step(time.Minute)
	}
	other := podList("bob")
	other.Shape.Verb, other.Shape.Scope, other.Cost.CPU = "get", "name", 0.001
	accounts.Observe(&other)
	r := accounts.Report()
	if r.Total.Requests != 4 || r.Total.Bytes != 4000 || len(r.Shapes) != 2 || len(r.Clients) != 2 {
		t.Fatalf("%+v", r)
	}
	want := serverreport.ListCost{Requests: 3, Objects: 30, Scanned: 60, ScannedBytes: 600, Bytes: 3000, CPU: 1.5, Seconds: 3}
	alice := serverreport.Client{User: "alice", UserAgent: "agent"}
	if s := r.Shapes[0]; s.ListCost != want || s.Shape != podList("").Shape || !slices.Equal(s.Clients, []serverreport.Client{alice}) {
		t.Errorf("%+v", s)
	}
	if c := r.Clients[0]; c.ListCost != want || c.Client != alice || c.Top != podList("").Shape {
		t.Errorf("%+v", c)
	}
}

func TestAccountsSlide(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{})
	for range 30 {
		r := podList("alice")
		accounts.Observe(&r)
		clock.Step(time.Minute)
	}
	if r := accounts.Report(); r.Shapes[0].Requests != 9 || r.Total.Requests != 30 {
		t.Errorf("%d requests in the last ten minutes, %d in all; want 9 and 30", r.Shapes[0].Requests, r.Total.Requests)
	}
	clock.Step(20 * time.Minute)
	if r := accounts.Report(); len(r.Shapes) != 0 || len(r.Clients) != 0 || r.Total.Requests != 30 {
		t.Errorf("%+v", r)
	}
}

// TestHeavyHittersSurvive floods the accounts with clients and shapes that come once.
// Ten clients and shapes in between cost less a request, but more in total.
func TestHeavyHittersSurvive(t *testing.T) {
	accounts, clock := newAccounts(usage.Config{})
	for i := range 100_000 {
		flood := podList(fmt.Sprintf("flood-%d", i))
		flood.Cost.CPU = 0.01
		flood.Shape.Selectors = fmt.Sprintf("labels: l%d", i)
		accounts.Observe(&flood)
		if i%20 == 0 && i > 5000 { // the tables are full by then
			heavy := podList(fmt.Sprintf("heavy-%d", i/20%10))
			heavy.Cost.CPU = 0.005
			heavy.Shape.Resource = fmt.Sprintf("heavy%d", i/20%10)
			accounts.Observe(&heavy)
		}
		if i%2000 == 0 {
			clock.Step(6 * time.Second)
		}
	}
	r := accounts.Report()
	for i := range 10 {
		if c := r.Clients[i]; !strings.HasPrefix(c.User, "heavy-") || c.Requests < 400 {
			t.Errorf("client %d is %s with %d requests", i, c.User, c.Requests)
		}
		if s := r.Shapes[i]; !strings.HasPrefix(s.Resource, "heavy") || s.Requests < 400 || !strings.HasPrefix(s.Clients[0].User, "heavy-") {
			t.Errorf("shape %d is %+v", i, s)
		}
	}
}

// TestManyAtOnce gives the race detector work. No request may be lost.
func TestManyAtOnce(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{PacePercent: 10, ProcessCPU: func() time.Duration { return time.Hour }})
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			for i := range 1000 {
				r := podList(fmt.Sprint("user", i%7))
				r.Shape.Limit, r.Relist = int64(i%5+g), true
				accounts.Observe(&r)
				accounts.Relist(relist(i))
				if i%100 == 0 {
					accounts.Report()
				}
			}
		})
	}
	running.Wait()
	r := accounts.Report()
	sum := uint64(0)
	for _, s := range r.Shapes {
		sum += s.Requests
	}
	if r.Total.Requests != 8000 || sum != 8000 || len(r.Clients) != 7 {
		t.Errorf("%d requests, %d by shape, %d clients", r.Total.Requests, sum, len(r.Clients))
	}
}

// TestForget forgets most resources. Their shapes, metrics and storms are dropped.
// Clients keep their costs, and later requests are counted correctly.
func TestForget(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{})
	for i := range 200 {
		for _, resource := range []string{"pods", fmt.Sprint("things", i, ".example")} {
			r := podList("alice")
			r.Shape.Resource = resource
			accounts.Observe(&r)
		}
	}
	for i := range 10 {
		r := relist(i)
		r.Resource = "things0.example"
		accounts.Relist(r)
	}
	bob := podList("bob")
	bob.Shape.Resource = "things0.example"
	accounts.Observe(&bob)
	const last = "things199.example"
	accounts.Forget(func(resource string) bool { return strings.HasPrefix(resource, "things") && resource != last })
	for range 2 {
		for _, resource := range []string{"pods", last, "things9.example"} {
			r := podList("alice")
			r.Shape.Resource = resource
			accounts.Observe(&r)
		}
	}
	requests := map[string]uint64{}
	r := accounts.Report()
	for _, s := range r.Shapes {
		requests[s.Resource] = s.Requests
	}
	if want := map[string]uint64{"pods": 202, last: 3, "things9.example": 2}; !maps.Equal(requests, want) {
		t.Errorf("requests by resource: %v, want %v", requests, want)
	}
	if c := r.Clients[0]; c.Requests != 406 || c.Top.Resource != "pods" {
		t.Errorf("client: %d requests, most of %s", c.Requests, c.Top.Resource)
	}
	if c := r.Clients[1]; c.User != "bob" || c.Requests != 1 || c.Top != (serverreport.Shape{}) {
		t.Errorf("client of a resource that is gone: %+v", c)
	}
	if len(r.Storms) != 1 || r.Storms[0].Ended.IsZero() {
		t.Errorf("storms: %+v", r.Storms)
	}
	if n := counted(t, accounts.Collector(), "millrace_list_cost_requests_total"); n != 207 {
		t.Errorf("%v requests in the metrics, want those of pods, things199 and things9", n)
	}
}

// counted returns the sum of a counter over its labels.
func counted(t *testing.T, c metrics.StableCollector, name string) (sum float64) {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	if err := registry.CustomRegister(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
