package read_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/tier/read"
)

// newCountedTier makes a tier with accounts.
func newCountedTier(t *testing.T, cfg usage.Config, objects ...string) (*testTier, *usage.Accounts) {
	t.Helper()
	env := newTestTier(t)
	env.load(t, objects...)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lists := usage.NewAccounts(cfg)
	env.tier.SetAccounts(lists, nil)
	return env, lists
}

// byUser sets the user of a request.
func byUser(name string, groups ...string) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		return request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
	}
}

// onlyShape is the one shape that the accounts know.
func onlyShape(t *testing.T, lists *usage.Accounts) serverreport.ListShape {
	t.Helper()
	r := lists.Report()
	if len(r.Shapes) != 1 {
		t.Fatalf("%d shapes: %+v", len(r.Shapes), r.Shapes)
	}
	return r.Shapes[0]
}

// TestShapes sends one request of each shape. It checks the shape's name in the accounts, the
// numbers of objects, and that the bytes of the body are counted.
func TestShapes(t *testing.T) {
	protobufGzip := http.Header{"Accept": {protobufAccept}, "Accept-Encoding": {"gzip"}}
	for _, c := range []struct {
		target string
		header http.Header
		shape  serverreport.Shape
		// objects is the number of objects that are found, scanned of those looked at.
		objects, scanned uint64
	}{
		{listPath, nil, serverreport.Shape{Verb: "list", Scope: "cluster", Revision: "unset", Encoding: "json", Path: "range"}, 4, 4},
		{listOnePath + "?resourceVersion=0", nil, serverreport.Shape{Verb: "list", Scope: "namespace", Revision: "0", Encoding: "json", Path: "range"}, 3, 3},
		{listPath, protobufGzip, serverreport.Shape{Verb: "list", Scope: "cluster", Revision: "unset", Encoding: "protobuf gzip", Path: "range"}, 4, 4},
		{listOnePath + "?limit=2&resourceVersion=7", nil, serverreport.Shape{Verb: "list", Scope: "namespace", Revision: "at least", Limit: 2, Encoding: "json", Path: "range"}, 2, 2},
		{listPath + "?labelSelector=name%3Da,!other&fieldSelector=metadata.namespace%3Done", http.Header{"Accept": {tableAccept}},
			serverreport.Shape{Verb: "list", Scope: "cluster", Selectors: "labels: name, other; fields: metadata.namespace", Revision: "unset", Encoding: "table", Path: "scan"}, 1, 3},
		{listPath + "?fieldSelector=metadata.name%3Da", http.Header{"Accept": {metadataListAccept}},
			serverreport.Shape{Verb: "list", Scope: "cluster", Selectors: "fields: metadata.name", Revision: "unset", Encoding: "metadata", Path: "scan"}, 2, 4},
		{listPath + "?continue=x", nil, serverreport.Shape{Verb: "list", Scope: "cluster", Revision: "continue", Encoding: "json", Path: "range"}, 4, 4},
		{listPath + "?pretty=1", nil, serverreport.Shape{Verb: "list", Scope: "cluster", Revision: "unset", Encoding: "json indented", Path: "range"}, 4, 4},
		{objectPath, nil, serverreport.Shape{Verb: "get", Scope: "name", Revision: "unset", Encoding: "json", Path: "key"}, 1, 1},
		{objectPath + "?resourceVersion=0", http.Header{"Accept": {metadataAccept}}, serverreport.Shape{Verb: "get", Scope: "name", Revision: "0", Encoding: "metadata", Path: "key"}, 1, 1},
		{"/api/v1/namespaces/one/configmaps/large", http.Header{"Accept-Encoding": {"gzip"}}, serverreport.Shape{Verb: "get", Scope: "name", Revision: "unset", Encoding: "json gzip", Path: "key"}, 1, 1},
		{"/api/v1/namespaces/one/configmaps/absent", nil, serverreport.Shape{Verb: "get", Scope: "name", Revision: "unset", Encoding: "json", Path: "key"}, 0, 1},
	} {
		env, lists := newCountedTier(t, usage.Config{}, "one/a", "one/b", "one/large", "two/a")
		body := env.send(t, http.MethodGet, c.target, c.header, byUser("alice")).Body.Len()
		got := onlyShape(t, lists)
		c.shape.Resource, c.shape.Version = "configmaps", "v1"
		if got.Shape != c.shape {
			t.Errorf("%s:\n got %+v\nwant %+v", c.target, got.Shape, c.shape)
		}
		if got.Bytes != uint64(body) || body == 0 || got.Objects != c.objects || got.Scanned != c.scanned {
			t.Errorf("%s: body of %d bytes, %d objects of %d: %+v", c.target, body, c.objects, c.scanned, got.ListCost)
		}
		if got.Requests != 1 || got.CPU <= 0 || got.Seconds < got.CPU || c.scanned > 0 && got.ScannedBytes == 0 {
			t.Errorf("%s: %+v", c.target, got.ListCost)
		}
		if !slices.Equal(got.Clients, []serverreport.Client{{User: "alice"}}) {
			t.Errorf("%s: by %v", c.target, got.Clients)
		}
	}
}

// TestPassedOnAccounts measures around the handler to which the tier passes on.
func TestPassedOnAccounts(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	env.handler = env.tier.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Content-Encoding", "gzip")
		for range 3 {
			_, _ = w.Write(make([]byte, 1000))
		}
		_ = http.NewResponseController(w).Flush()
	}))
	body := env.send(t, http.MethodGet, listPath+"?limit=5&labelSelector=app%3Da", http.Header{"Accept": {"application/yaml"}, "User-Agent": {"kubectl/v1.36 (linux)"}}, byUser("alice")).Body.Len()
	got := onlyShape(t, lists)
	want := serverreport.Shape{
		Verb: "list", Resource: "configmaps", Version: "v1", Scope: "cluster", Selectors: "labels: app", Revision: "unset", Limit: 5,
		Encoding: "yaml gzip", Path: "passed on", Reason: "accept",
	}
	if got.Shape != want || got.Bytes != uint64(body) || got.Bytes != 3000 || got.CPU <= 0 || got.Clients[0].UserAgent != "kubectl" {
		t.Errorf("%+v", got)
	}
}

// TestPassedOnElsewhere: what another process answers costs bytes, and none of our CPU.
func TestPassedOnElsewhere(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	counters, err := read.NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	env.tier = read.NewTier(read.Config{Metrics: counters, PassedOnElsewhere: true})
	env.tier.SetAccounts(lists, nil)
	env.handler = env.tier.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(time.Millisecond) // another server takes its time
		_, _ = io.WriteString(w, "answer")
	}))
	env.send(t, http.MethodGet, listPath, nil)
	if got := lists.Report().Total; got.Requests != 1 || got.CPU != 0 || got.Seconds < 0.001 || got.Bytes != 6 {
		t.Errorf("%+v", got)
	}
}

// TestOutcomes has requests passed on alone, with another one, and before the tier sees them, with
// several statuses.
func TestOutcomes(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	answer := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Shared") != "" {
			read.NoteShared(req)
		}
		if status, err := strconv.Atoi(req.Header.Get("Status")); err == nil {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, "answer")
	})
	tier := env.tier
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Excluded") != "" {
			tier.PassOn(w, req, answer, "excluded")
			return
		}
		tier.Wrap(answer).ServeHTTP(w, req)
	})
	yaml := []string{"application/yaml"}
	env.send(t, http.MethodGet, listPath, nil)
	env.send(t, http.MethodGet, listPath, http.Header{"Accept": yaml})
	env.send(t, http.MethodGet, listPath, http.Header{"Accept": yaml, "Shared": {"1"}})
	env.send(t, http.MethodGet, listPath, http.Header{"Excluded": {"1"}})
	env.send(t, http.MethodPost, listPath, http.Header{"Excluded": {"1"}})
	for _, status := range []string{"200", "403", "404", "429", "503"} {
		env.send(t, http.MethodGet, listPath, http.Header{"Excluded": {"1"}, "Status": {status}})
	}
	var found []string
	for _, s := range lists.Report().Shapes {
		found = append(found, fmt.Sprintf("%s %s %d", s.Path, s.Reason, s.Requests))
	}
	slices.Sort(found)
	if want := []string{"passed on accept 1", "passed on excluded 6", "range  1", "shared accept 1"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
	if got, want := lists.ByResource(), (serverreport.ResourceReads{Resource: "configmaps", Requests: 9, Shared: 1, PassedOn: 7, Failed: 2}); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNotAccounted sends requests that are neither a GET nor a LIST of objects.
func TestNotAccounted(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	env.send(t, http.MethodPost, listPath, nil)
	env.send(t, http.MethodGet, "/version", nil)
	env.send(t, http.MethodGet, "/api/v1/namespaces/one/pods/a/log", nil)
	env.send(t, http.MethodGet, listPath+"?watch=1", nil)
	if r := lists.Report(); r.Total.Requests != 0 {
		t.Errorf("%+v", r.Shapes)
	}
}

// TestUnknownResources have no metrics of their own.
func TestUnknownResources(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	if err := env.registry.CustomRegister(lists.Collector()); err != nil {
		t.Fatal(err)
	}
	env.send(t, http.MethodGet, listPath, nil)
	for i := range 3 {
		env.send(t, http.MethodGet, fmt.Sprintf("/apis/none.io/v1/things%d", i), nil)
	}
	families, err := env.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range families {
		if f.GetName() != "millrace_list_cost_requests_total" {
			continue
		}
		for _, m := range f.Metric {
			found = append(found, fmt.Sprintf("%s %s %v", m.Label[1].GetValue(), m.Label[0].GetValue(), m.Counter.GetValue()))
		}
	}
	slices.Sort(found)
	if want := []string{"configmaps range 1", "other passed on 3"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

// TestAuditedListsAreRelists counts requests that are passed on only because they are
// audited.
func TestAuditedListsAreRelists(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{}, "one/a")
	audited := func(ctx context.Context) context.Context {
		ctx = audit.WithAuditContext(ctx)
		_ = audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}, nil)
		return ctx
	}
	for i := range 10 {
		env.from(t, fmt.Sprintf("10.0.0.%d:99", i), listPath, audited)
	}
	if r := lists.Report(); len(r.Storms) != 1 || r.Shapes[0].Reason != "audit" {
		t.Errorf("%+v", r)
	}
}

// from sends a GET from an address.
func (env *testTier) from(t testing.TB, address, target string, wraps ...func(context.Context) context.Context) *httptest.ResponseRecorder {
	t.Helper()
	inner := env.handler
	defer func() { env.handler = inner }()
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.RemoteAddr = address
		inner.ServeHTTP(w, req)
	})
	return env.send(t, http.MethodGet, target, http.Header{"User-Agent": {"agent/v1"}}, wraps...)
}

// TestPacedRelists restarts a fleet.
func TestPacedRelists(t *testing.T) {
	env, lists := newCountedTier(t, usage.Config{PacePercent: 10}, "one/a")
	codes := map[int]int{}
	for i := range 100 {
		w := env.from(t, fmt.Sprintf("10.0.%d.1:99", i), listPath+"?resourceVersion=0", byUser("agent"))
		codes[w.Code]++
		if w.Code == http.StatusOK {
			continue
		}
		if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"reason":"TooManyRequests"`) {
			t.Fatalf("%d, %v: %s", w.Code, w.Header(), w.Body)
		}
	}
	if codes[http.StatusOK] > 10 || codes[http.StatusTooManyRequests] < 90 {
		t.Errorf("answers: %v", codes)
	}
	if r := lists.Report(); r.Paced != uint64(codes[http.StatusTooManyRequests]) || len(r.Storms) != 1 || r.Storms[0].Bytes == 0 {
		t.Errorf("%+v", r)
	}
	for _, free := range []struct {
		target string
		by     func(context.Context) context.Context
	}{
		{listPath + "?continue=x", byUser("agent")}, {listOnePath, byUser("agent")}, {objectPath, byUser("agent")}, {listPath + "?labelSelector=a%3Db", byUser("agent")},
		{listPath + "?resourceVersion=7", byUser("agent")}, {listPath, byUser("admin", user.SystemPrivilegedGroup)}, {listPath, byUser(user.APIServerUser)},
		{listPath, byUser(user.KubeControllerManager)}, {listPath, byUser(user.KubeScheduler)},
	} {
		if w := env.from(t, "10.1.0.1:99", free.target, free.by); w.Code != http.StatusOK {
			t.Errorf("%s: status %d", free.target, w.Code)
		}
	}
	for _, held := range []string{"", "?labelSelector=!a", "?limit=500"} {
		if w := env.from(t, "10.2.0.1:99", listPath+held, byUser("agent")); w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: status %d", held, w.Code)
		}
	}
}

// slowPause is how long a slowWriter waits before each write.
const slowPause = 100 * time.Millisecond

// slowWriter is a client, or a handler, that waits before each write.
type slowWriter struct{ http.ResponseWriter }

func (s *slowWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *slowWriter) Write(b []byte) (int, error) {
	<-time.After(slowPause)
	return s.ResponseWriter.Write(b)
}

// TestWaitingIsNoCPU checks that the time that requests wait does not count as CPU time.
func TestWaitingIsNoCPU(t *testing.T) {
	for _, c := range []struct {
		target string
		// fails says that etcd does not answer.
		fails bool
	}{{target: listPath}, {target: objectPath}, {target: listPath + "?limit=x"}, {listPath, true}, {objectPath, true}} {
		env, lists := newCountedTier(t, usage.Config{}, "one/a")
		env.etcd.pause = slowPause
		if c.fails {
			env.etcd.err = context.DeadlineExceeded
		}
		inner := env.tier.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("passed on")) }))
		env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { inner.ServeHTTP(&slowWriter{w}, req) })
		env.send(t, http.MethodGet, c.target, nil)
		got := onlyShape(t, lists)
		waits := 2.0 // for etcd and the client
		if got.Reason != "" {
			waits = 1
		}
		if got.Seconds < waits*slowPause.Seconds() || got.CPU > slowPause.Seconds()/2 {
			t.Errorf("%+v: %+v", c, got.ListCost)
		}
	}
}

// TestWaitingBehindTheTier passes reads on to a handler that waits for the cache, and to
// another server.
func TestWaitingBehindTheTier(t *testing.T) {
	for _, target := range []string{listPath + "?limit=x", "/apis/elsewhere.io/v1/things"} {
		env, lists := newCountedTier(t, usage.Config{}, "one/a")
		env.handler = env.tier.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			began := time.Now()
			<-time.After(slowPause)
			if target == listPath+"?limit=x" {
				usage.AddWait(req.Context(), began)
			}
		}))
		env.send(t, http.MethodGet, target, nil)
		if got := onlyShape(t, lists); got.Seconds < slowPause.Seconds() || got.CPU > slowPause.Seconds()/2 {
			t.Errorf("%s: %+v", target, got.ListCost)
		}
	}
}
