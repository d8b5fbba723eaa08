package read_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

// agentServer serves a tier to agents over HTTP. Each agent names its own client address
// in a header.
type agentServer struct {
	server *httptest.Server
	mu     struct {
		sync.Mutex
		// listed holds the times at which successful responses ended.
		listed []time.Time
	}
}

// newAgents starts a server for a tier. A watch gets no events and stays open until its
// client leaves.
func newAgents(t *testing.T, env *testTier) *agentServer {
	a := &agentServer{}
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api"), GrouplessAPIPrefixes: sets.NewString("api")}
	a.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if info.Verb == "watch" {
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return
		}
		req.RemoteAddr = req.Header.Get("X-Agent")
		ctx := request.WithUser(request.WithRequestInfo(req.Context(), info), &user.DefaultInfo{Name: "agent"})
		status := &statusWriter{ResponseWriter: w}
		env.handler.ServeHTTP(status, req.WithContext(ctx))
		if status.code == http.StatusOK {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.mu.listed = append(a.mu.listed, time.Now())
		}
	}))
	t.Cleanup(a.server.Close)
	return a
}

type statusWriter struct {
	http.ResponseWriter
	code int
}

func (s *statusWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// fromAddress is a transport whose requests seem to come from the given address.
type fromAddress struct {
	http.Transport
	address string
}

func (f *fromAddress) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Agent", f.address)
	return f.Transport.RoundTrip(req)
}

// reflector returns agent i's reflector for config maps, and the store that it fills.
func (a *agentServer) reflector(t *testing.T, i int) (*clientcache.Reflector, clientcache.Store) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	client, err := rest.RESTClientFor(&rest.Config{
		Host: a.server.URL, APIPath: "/api", UserAgent: "agent/v1", QPS: -1,
		Transport: &fromAddress{address: fmt.Sprintf("10.0.%d.1:4711", i), Transport: http.Transport{DialContext: (&net.Dialer{}).DialContext}},
		ContentConfig: rest.ContentConfig{
			GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := clientcache.NewStore(clientcache.MetaNamespaceKeyFunc)
	lw := clientcache.NewListWatchFromClient(client, "configmaps", "", fields.Everything())
	return clientcache.NewReflector(clientcache.ToListWatcherWithWatchListSemantics(lw, noWatchList{}), &corev1.ConfigMap{}, store, 0), store
}

// noWatchList makes a reflector use LIST instead of a watch with initial events.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// TestStormOfReflectors starts 40 of client-go's reflectors at once. The pace allows 400
// lists a minute. In the end all reflectors have listed, no faster than the pace.
func TestStormOfReflectors(t *testing.T) {
	const fleet, perSecond = 40, 400. / 60
	env, lists := newCountedTier(t, usage.Config{PacePercent: 1000}, "one/a", "one/b")
	a := newAgents(t, env)
	ctx, cancel := context.WithCancel(t.Context())
	// The accounts learn of all agents in advance. The pace depends on their number.
	for i := range fleet {
		lists.Relist(&usage.Relist{Client: serverreport.NewClient("agent", "agent/v1"), Address: fmt.Sprintf("10.0.%d.1:1", i), Resource: "configmaps"})
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var stores []clientcache.Store
	for i := range fleet {
		r, store := a.reflector(t, i)
		stores = append(stores, store)
		running.Go(func() { r.RunWithContext(ctx) })
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(stores, func(s clientcache.Store) bool { return len(s.ListKeys()) != 2 }), nil
	}); err != nil {
		t.Fatalf("not all informers have their objects: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.listed) != fleet {
		t.Errorf("%d lists were answered", len(a.mu.listed))
	}
	slices.SortFunc(a.mu.listed, time.Time.Compare)
	// The first 14 lists came before the storm was detected. Clients retry up to a second
	// too early.
	rest := a.mu.listed[14:]
	if took := rest[len(rest)-1].Sub(rest[0]).Seconds(); took < float64(len(rest))/perSecond-1.5 {
		t.Errorf("%d listed in %.1f s", len(rest), took)
	}
	if r := lists.Report(); r.Paced == 0 || len(r.Storms) != 1 || r.Storms[0].Clients != fleet {
		t.Errorf("%d held back, %+v", r.Paced, r.Storms)
	}
}

// TestWatchListsAreRelists checks that watches that begin with all objects are held back in a
// storm. Watches from a recent revision and watches with a selector are not.
func TestWatchListsAreRelists(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	env.testTier.tier.SetAccounts(usage.NewAccounts(usage.Config{PacePercent: 10, Logger: slog.New(slog.DiscardHandler)}), nil)
	for i := range 10 {
		env.from(t, fmt.Sprintf("10.0.0.%d:99", i), listPath)
	}
	inner := env.handler
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.RemoteAddr = "10.0.0.99:99"
		inner.ServeHTTP(w, req)
	})
	const watchList = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	for query, code := range map[string]int{
		watchList: http.StatusTooManyRequests, watchList + "&resourceVersion=7": http.StatusTooManyRequests, "?watch=1&resourceVersion=0": http.StatusTooManyRequests,
		"?watch=1&resourceVersion=100": http.StatusOK, watchList + "&labelSelector=a%3Db": http.StatusOK,
	} {
		s := env.watch(t, listPath+query+"&timeoutSeconds=1", http.Header{"User-Agent": {"agent/v1"}})
		if s.StatusCode != code || code != http.StatusOK && s.Header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, %v", query, s.StatusCode, s.Header)
		}
	}
}
