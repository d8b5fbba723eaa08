package read_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/tier/read"
)

// accountedServer is a watchServer whose watches are accounted.
type accountedServer struct {
	*watchServer
	accounts *slo.Watches
}

func newAccounted(t testing.TB, protocol string) *accountedServer {
	t.Helper()
	return newAccountedBy(t, protocol, slo.NewWatches(slo.Config{}))
}

// newAccountedBy returns a server that uses the given accounts. With nil, watches are
// not accounted.
func newAccountedBy(t testing.TB, protocol string, accounts *slo.Watches) *accountedServer {
	t.Helper()
	env := &accountedServer{accounts: accounts}
	env.watchServer = newWatchServer(t, protocol == "HTTP/2", func(c *read.RouteConfig) { c.Shared.Accounts = env.accounts })
	handler := env.handler
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who := &user.DefaultInfo{Name: req.Header.Get("Test-User")}
		handler.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), who)))
	})
	return env
}

// change applies the write of an object, and its time of arrival, as the feed does.
func (env *accountedServer) change(t testing.TB, key, value string, revision int64) {
	t.Helper()
	env.cache.Received(time.Now())
	env.put(t, key, value, revision)
}

// waitUntil waits until is returns true. The text what names the condition in the
// failure.
func waitUntil(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(120 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// countingReader counts the bytes that are read from a body.
type countingReader struct {
	io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestAccountsAreWhatClientsRead(t *testing.T) {
	for _, protocol := range []string{"HTTP/2", "HTTP/1.1"} {
		for _, coding := range []string{"identity", "gzip"} {
			t.Run(protocol+" "+coding, func(t *testing.T) { testAccounts(t, protocol, coding) })
		}
	}
}

func testAccounts(t *testing.T, protocol, coding string) {
	env := newAccounted(t, protocol)
	env.load(t, "a/one", "a/two")
	const watches, changes = 3, 200
	var bodies []*countingReader
	var lines []*strings.Builder
	for i := range watches {
		s := env.watch(t, "/api/v1/namespaces/a/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
			http.Header{"Accept-Encoding": {coding}, "User-Agent": {"kubelet/v1.30 (linux/amd64)"}, "Test-User": {fmt.Sprint("node-", i%2)}})
		bodies = append(bodies, &countingReader{Reader: s.Body})
		lines = append(lines, new(strings.Builder))
	}
	waitUntil(t, "watches", func() bool { return env.accounts.Watchers().Watches == watches })
	for i := range changes {
		env.change(t, "a/one", strings.Repeat("x", i*i%9000), int64(cacheRevision+1+i))
	}
	for i := range bodies {
		var r io.Reader = bodies[i]
		if coding == "gzip" {
			z, err := gzip.NewReader(bodies[i])
			if err != nil {
				t.Fatal(err)
			}
			r = z
		}
		for part := make([]byte, 4096); strings.Count(lines[i].String(), "\n") < changes+3; {
			n, err := r.Read(part)
			if err != nil {
				t.Fatal(err)
			}
			lines[i].Write(part[:n])
		}
	}
	waitUntil(t, "all is counted", func() bool { return env.accounts.SLO().All.Spans.Count == watches*changes })
	var read uint64
	for _, b := range bodies {
		read += uint64(b.n)
	}
	result, watchers := env.accounts.SLO(), env.accounts.Watchers()
	if want := uint64(watches * (changes + 2)); watchers.Events != want || result.All.Events != want {
		t.Errorf("%d and %d events, want %d", watchers.Events, result.All.Events, want)
	}
	// The client has read the last line, so it has read all bytes that were written.
	if watchers.Bytes != read {
		t.Errorf("%d bytes are counted, %d were read", watchers.Bytes, read)
	}
	var events, bytes uint64
	for _, c := range result.Clients {
		events, bytes = events+c.Events, bytes+c.Bytes
		if c.UserAgent != "kubelet" || !strings.HasPrefix(c.User, "node-") {
			t.Errorf("client %+v", c.Client)
		}
	}
	if len(result.Clients) != 2 || events != watchers.Events || bytes != watchers.Bytes {
		t.Errorf("%d clients have %d events and %d bytes, want 2 with %d and %d", len(result.Clients), events, bytes, watchers.Events, watchers.Bytes)
	}
	if len(result.Resources) != 1 || result.Resources[0].Resource != "configmaps" || result.Resources[0].Events != watchers.Events || !result.Met {
		t.Errorf("report %+v", result)
	}
	if s := result.Subscriptions; len(s) != 1 || s[0].Selection != "namespace=a" || s[0].Watches != watches || s[0].Events != watchers.Events {
		t.Errorf("subscriptions %+v", s)
	}
	if watchers.Waiting != 0 || watchers.ByResource[0].LogEvents != changes {
		t.Errorf("watchers %+v", watchers)
	}
}

// TestSlowClientIsNamed has one client that does not read and one that does. The reports
// must name the former.
func TestSlowClientIsNamed(t *testing.T) {
	for protocol, state := range map[string]string{"HTTP/2": "client", "HTTP/1.1": "connection"} {
		t.Run(protocol, func(t *testing.T) {
			env := newAccountedBy(t, protocol, slo.NewWatches(slo.Config{Objectives: slo.Objectives{Default: 400 * time.Millisecond}}))
			env.load(t, "a/one")
			const target = "/api/v1/configmaps?watch=true&resourceVersion=100"
			header := func(user string) http.Header {
				return http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"informer/v1"}, "Test-User": {user}}
			}
			slow := env.watch(t, target, header("slow"))
			env.server.Client().CloseIdleConnections()
			fine := env.watch(t, target, header("fine"))
			go func() { _, _ = io.Copy(io.Discard, fine.Body) }()
			waitUntil(t, "watches", func() bool { return env.accounts.Watchers().Watches == 2 })
			changes, value := 0, strings.Repeat("x", 60<<10)
			stuck := func() *serverreport.Watcher {
				for _, w := range env.accounts.Watchers().Behind {
					if w.User == "slow" && w.BehindSeconds > 1 {
						return &w
					}
				}
				return nil
			}
			waitUntil(t, "the slow client to be behind", func() bool {
				if changes < 400 {
					changes++
					env.change(t, "a/one", value, int64(cacheRevision+changes))
				}
				return stuck() != nil
			})
			w, read := stuck(), uint64(changes)-uint64(stuck().BehindEvents)
			if w.State != state || w.Events > uint64(changes) || w.Events != read || w.BehindBytes < w.BehindEvents*(50<<10) {
				t.Errorf("behind by %d changes: %+v", changes, w)
			}
			result := env.accounts.SLO()
			named := func(f serverreport.Finding) bool { return f.Client == "informer (slow)" && string(f.Cause) == state }
			if !slices.ContainsFunc(result.Causes, named) {
				t.Errorf("causes %+v", result.Causes)
			}
			go func() { _, _ = io.Copy(io.Discard, slow.Body) }()
			waitUntil(t, "all to be sent", func() bool { return env.accounts.SLO().All.Spans.Count == 2*uint64(changes) })
			result = env.accounts.SLO()
			if c := result.Clients[0]; c.User != "slow" || string(c.Cause) != state || c.Late == 0 {
				t.Errorf("clients %+v", result.Clients)
			}
			if r := result.Resources[0]; r.Met || string(r.Cause) != state {
				t.Errorf("resource %+v", r)
			}
			if result.Causes[0].Resource == "" || state == "client" && result.Causes[0].Severity != "warning" {
				t.Errorf("causes %+v", result.Causes)
			}
		})
	}
}
