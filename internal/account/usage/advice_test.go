package usage_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

// TestAdvice observes requests that could be cheaper, and checks the advice of their
// shape and of their client.
func TestAdvice(t *testing.T) {
	type request = usage.Request
	full := func(r *request) {
		r.Cost = serverreport.ListCost{Objects: 10_000, Scanned: 10_000, Bytes: 200 << 20, CPU: 0.3, Seconds: 0.5}
	}
	for _, c := range []struct {
		name  string
		times int
		alter func(r *request)
		// want has a part of each sentence, in order.
		want []string
	}{
		{"seldom and small", 1, func(r *request) { r.Cost = serverreport.ListCost{Objects: 10, Bytes: 1000, CPU: 0.001} }, nil},
		{"polling", 60, func(*request) {}, []string{"agent (alice) sent 60 similar LISTs of pods in 10 min: use an informer, a watch or a watch-list (sendInitialEvents=true) instead: that sends what changes; as long as it polls, resourceVersion=0"}},
		{"polling the cache", 60, func(r *request) { r.Shape.Revision = "0" }, []string{"watch-list (sendInitialEvents=true) instead: that sends what changes."}},
		{"pages", 60, func(r *request) { r.Shape.Revision = "continue" }, nil},
		{"at a revision", 60, func(r *request) { r.Shape.Revision = "exact" }, nil},
		{"some GETs", 60, func(r *request) { r.Shape.Verb, r.Shape.Scope, r.Shape.Path = "get", "name", "key" }, nil},
		{"many GETs", 600, func(r *request) { r.Shape.Verb, r.Shape.Scope, r.Shape.Path = "get", "name", "key" },
			[]string{"600 GETs of pods in 10 min: read them from an informer, which watches, instead; as long as it polls, resourceVersion=0"}},
		{"by namespace", 4, func(r *request) {
			r.Shape.Selectors, r.Shape.Path, r.Cost.CPU = "fields: metadata.namespace", "scan", 5
		}, []string{"List …/namespaces/NAME/pods instead"}},
		{"a scan", 4, func(r *request) {
			r.Shape.Selectors, r.Shape.Path = "labels: app, tier; fields: metadata.namespace, spec.nodeName", "scan"
			r.Cost.CPU, r.Cost.Scanned, r.Shape.Scope = 5, 50_000, "namespace"
		}, []string{"No index serves the selector (labels: app, tier; fields: spec.nodeName): a list looks at 50000 objects and returns 10; a requirement of a value"}},
		{"a scan with a limit", 4, func(r *request) {
			r.Shape.Selectors, r.Shape.Path, r.Shape.Limit = "labels: app", "scan", 100
			r.Cost.CPU, r.Cost.Scanned = 5, 50_000
		}, []string{"returns 10; lists with a limit below 512"}},
		{"a scan that finds", 4, func(r *request) {
			r.Shape.Selectors, r.Shape.Path = "labels: app", "scan"
			r.Cost.CPU, r.Cost.Scanned, r.Cost.Objects = 5, 50_000, 49_000
		}, nil},
		{"large JSON", 4, func(r *request) { full(r); r.Shape.Resource, r.Shape.Limit = "deployments.apps", 20_000 },
			[]string{"Ask for protobuf", "ask for metadata"}},
		{"large JSON of a custom resource", 4, func(r *request) { full(r); r.Shape.Resource, r.Shape.Limit = "things.example.org", 20_000 },
			[]string{"ask for metadata"}},
		{"whole and large", 4, full, []string{"Ask for protobuf", "List in pages (limit=500 and continue): an answer has 210 MB", "ask for metadata"}},
		{"over a slow network", 4, func(r *request) { full(r); r.Shape.Encoding, r.Cost.Seconds = "protobuf", 12.3 },
			[]string{"Accept gzip (in client-go leave rest.Config.DisableCompression false): answers of 210 MB take 12.3 s, 12.0 s of it", "ask for metadata"}},
		{"compressed over a slow network", 4, func(r *request) { full(r); r.Shape.Encoding, r.Cost.Seconds = "protobuf gzip", 12.3 }, []string{"ask for metadata"}},
		{"metadata", 4, func(r *request) { full(r); r.Shape.Encoding = "metadata protobuf" }, nil},
		{"passed on", 4, func(r *request) {
			r.Shape.Path, r.Shape.Reason, r.Shape.Encoding, r.Cost.CPU = "passed on", "accept", "yaml", 5
		}, []string{"This is passed on (accept), and costs as much as at kube-apiserver: ask for application/json"}},
	} {
		accounts, clock := newAccounts(usage.Config{})
		for range c.times {
			r := podList("alice")
			c.alter(&r)
			accounts.Observe(&r)
			clock.Step(9 * time.Minute / time.Duration(c.times))
		}
		clock.SetTime(start.Add(590 * time.Second))
		r := accounts.Report()
		for subject, got := range map[string][]string{"shape": r.Shapes[0].Advice, "client": r.Clients[0].Advice} {
			if len(got) != len(c.want) {
				t.Errorf("%s: the %s gets advice %q, want %q", c.name, subject, got, c.want)
				continue
			}
			for i, part := range c.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("%s: the %s gets advice %q, want %q", c.name, subject, got[i], part)
				}
			}
		}
	}
}

// TestEveryReasonHasAdvice checks that each reason for passing on has a sentence.
func TestEveryReasonHasAdvice(t *testing.T) {
	for _, reason := range []string{"resource", "path", "parameter", "selector", "accept", "audit", "odd-object", "history", "loading", "unproven", "encoding", "conversion", "upgrade", "connection",
		"skew-table", "skew-metadata", "skew-indented", "skew-parameter", "skew-page", "skew-shard", "skew-error", "skew-bookmark"} {
		accounts, _ := newAccounts(usage.Config{})
		r := podList("alice")
		r.Shape.Path, r.Shape.Reason, r.Cost.CPU = "passed on", reason, 100
		accounts.Observe(&r)
		if got := accounts.Report().Shapes[0].Advice; len(got) != 1 || strings.HasSuffix(got[0], ": .") {
			t.Errorf("%s: %q", reason, got)
		}
	}
}

// TestGroupsDoNotPoll sends many LISTs, each from another address: no client polls.
func TestGroupsDoNotPoll(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{})
	for i := range 60 {
		r := podList("alice")
		r.Address = relist(i).Address
		accounts.Observe(&r)
	}
	if r := accounts.Report(); len(r.Shapes[0].Advice)+len(r.Clients[0].Advice) > 0 {
		t.Errorf("%q, %q", r.Shapes[0].Advice, r.Clients[0].Advice)
	}
}

// TestLargeListsPassedOnAreLogged checks that one of five is logged.
func TestLargeListsPassedOnAreLogged(t *testing.T) {
	var log bytes.Buffer
	accounts, clock := newAccounts(usage.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	lines := func(alter func(*usage.Request)) int {
		log.Reset()
		for range 5 {
			r := podList("alice")
			r.Shape.Path, r.Shape.Reason = "passed on", "accept"
			alter(&r)
			accounts.Observe(&r)
		}
		clock.Step(time.Minute)
		return strings.Count(log.String(), "\n")
	}
	if n := lines(func(r *usage.Request) { r.Cost.CPU = 0.01 }); n != 0 {
		t.Errorf("small ones: %d lines", n)
	}
	if n := lines(func(r *usage.Request) { r.Shape.Path = "range" }); n != 0 {
		t.Errorf("from bytes: %d lines", n)
	}
	if n := lines(func(*usage.Request) {}); n != 1 || !strings.Contains(log.String(), "user=alice userAgent=agent resource=pods") || !strings.Contains(log.String(), "reason=accept") {
		t.Errorf("large ones: %s", &log)
	}
}
