package benchtest

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// API is an API server that answers the requests of the subcommands. Clients must send the
// bearer token "secret".
type API struct {
	Nodes, Pods int
	Secrets     int
	Customs     int    // custom objects of any definition
	onList      func() // called before every LIST without limit or selector; may be nil

	Watches     Watches
	Informers   Informers
	definitions definitions

	Requests atomic.Int64
	mu       struct {
		sync.Mutex
		uris    []string
		clients map[string]bool // remote addresses
	}
}

// namespacesPath is the only path whose answers look like a replica's: they name no FlowSchema.
const namespacesPath = "/api/v1/namespaces"

// ServeHTTP answers as an API server would.
func (f *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Requests.Add(1)
	f.mu.Lock()
	if f.mu.clients == nil {
		f.mu.clients = map[string]bool{}
	}
	f.mu.clients[r.RemoteAddr] = true
	f.mu.uris = append(f.mu.uris, r.URL.RequestURI())
	f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if r.URL.Path != namespacesPath {
		w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, "uid")
	}
	switch path := r.URL.Path; {
	case serveNode(w, r):
	case f.Informers.serve(w, r):
	case r.Header.Get("Accept") == testbed.AcceptProtobuf && slices.Contains(agentPaths(), path):
		f.list(w, r, 2, "other")
	case f.Customs > 0 && strings.Contains(path, fill.CRDGroupSuffix):
		f.list(w, r, f.Customs, "custom")
	case f.definitions.serve(w, r):
	case f.Watches.serve(w, r, f.Secrets):
	case path == "/metrics":
		fmt.Fprintf(w, "# TYPE go_goroutines gauge\ngo_goroutines 321\napiserver_request_total{verb=\"GET\"} %d\n", f.Requests.Load())
	case path == "/readyz":
		io.WriteString(w, "ok")
	case path == "/version":
		io.WriteString(w, `{"gitVersion":"v1.36.3-fake"}`)
	case path == "/api/v1/nodes":
		f.list(w, r, f.Nodes, "node")
	case path == "/api/v1/pods":
		f.list(w, r, f.Pods, "pod")
	case path == "/api/v1/secrets":
		f.list(w, r, f.Secrets, "secret")
	case strings.HasPrefix(path, "/api/v1/namespaces/"):
		json.NewEncoder(w).Encode(object("pod", 0, "Pod"))
	default:
		http.NotFound(w, r)
	}
}

// agentPaths returns the paths of resources that only a network agent lists.
func agentPaths() []string {
	return []string{namespacesPath, "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/apis/networking.k8s.io/v1/networkpolicies"}
}

// Connections returns the number of connections on which requests have arrived.
func (f *API) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.clients)
}

// CountURIs returns the number of requests so far whose URI has a prefix.
func (f *API) CountURIs(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, uri := range f.mu.uris {
		if strings.HasPrefix(uri, prefix) {
			n++
		}
	}
	return n
}

// list answers a LIST of n objects whose names begin with name. A limit and a selector make the
// list shorter.
func (f *API) list(w http.ResponseWriter, r *http.Request, n int, name string) {
	query := r.URL.Query()
	switch {
	case query.Has("limit"):
		var limit int
		fmt.Sscan(query.Get("limit"), &limit)
		n = min(n, limit)
	case query.Get("labelSelector") == fill.LabelSeed:
	case query.Has("fieldSelector"), query.Has("labelSelector"):
		n = min(n, 5)
	case f.onList != nil:
		f.onList()
	}
	var out io.Writer = w
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer zip.Close()
		out = zip
	}

	accept := r.Header.Get("Accept")
	if accept == testbed.AcceptProtobuf {
		out.Write(ProtobufList(n))
		return
	}
	field := "items"
	if strings.Contains(accept, "as=Table") {
		field = "rows"
	}
	items := make([]any, n)
	for i := range items {
		items[i] = object(name, i, "")
	}
	json.NewEncoder(out).Encode(map[string]any{"kind": "List", "metadata": map[string]any{"items": 1}, field: items})
}

func object(name string, i int, kind string) map[string]any {
	object := map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": fmt.Sprintf("%s-%d", name, i), "labels": map[string]string{"zone": "a", "app": "web"}},
		"spec":     map[string]any{"nodeName": fmt.Sprintf("node-%d", i), "padding": strings.Repeat("x", 200)},
	}
	if kind != "" {
		object["kind"] = kind
	}
	return object
}

// ProtobufList returns a list of n items as protobuf, in Kubernetes' envelope.
func ProtobufList(n int) []byte {
	field := func(to []byte, number uint64, value []byte) []byte {
		to = binary.AppendUvarint(to, number<<3|2)
		to = binary.AppendUvarint(to, uint64(len(value)))
		return append(to, value...)
	}
	list := field(nil, 1, []byte("metadata"))
	for range n {
		list = field(list, 2, make([]byte, 300))
	}
	unknown := field(nil, 1, []byte("type"))
	unknown = field(unknown, 2, list)
	unknown = field(unknown, 3, nil)
	return append([]byte("k8s\x00"), unknown...)
}

// StartTLS serves api over TLS in this process until the end of the test. It returns the server
// and a client configuration for it.
func StartTLS(t *testing.T, api http.Handler, http2 bool) (*httptest.Server, *rest.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(api)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s, &rest.Config{Host: s.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}
