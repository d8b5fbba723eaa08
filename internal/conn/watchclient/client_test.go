package watchclient_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/watchclient"
)

// patience bounds what happens at once on an idle machine.
const patience = 20 * time.Second

// startServer serves a handler over HTTP/2, with a limit of streams on each connection.
func startServer(t *testing.T, streams int, handler http.HandlerFunc) (*watchclient.Server, *httptest.Server) {
	t.Helper()
	web := httptest.NewUnstartedServer(handler)
	web.EnableHTTP2 = true
	web.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	web.StartTLS()
	t.Cleanup(web.Close)
	s, err := watchclient.NewServer(&rest.Config{
		Host: web.URL + "/prefix", BearerToken: "secret",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})},
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	return s, web
}

func newClient(t *testing.T, s *watchclient.Server, open *atomic.Int64) *watchclient.Client {
	t.Helper()
	c := s.NewClient(t.Context(), func(change int) { open.Add(int64(change)) })
	t.Cleanup(c.Close)
	return c
}

func get(uri string) *watchclient.Request {
	return &watchclient.Request{Method: "GET", URI: uri, Accept: "*/*", Identity: &watchclient.Identity{UserAgent: "test/1"}}
}

// recorder is a handler that tells what it got.
type recorder struct {
	header chan watchclient.Header
	data   chan string
	end    chan error
}

func newRecorder() *recorder {
	return &recorder{header: make(chan watchclient.Header, 8), data: make(chan string, 64), end: make(chan error, 8)}
}

func (r *recorder) Header(h watchclient.Header) { r.header <- h }
func (r *recorder) Data(p []byte)               { r.data <- string(p) }
func (r *recorder) End(err error)               { r.end <- err }

func receive[T any](t *testing.T, what string, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

func TestCallSendsIdentity(t *testing.T) {
	s, _ := startServer(t, 10, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
		h := r.Header
		fmt.Fprint(w, r.URL, " ", h["Authorization"], h["User-Agent"], h["Impersonate-User"], h["Impersonate-Group"], h["Impersonate-Extra-Authentication.kubernetes.io%2fpod-Name"])
	})
	var open atomic.Int64
	req := get("/a?b=c")
	req.Identity = &watchclient.Identity{UserAgent: "agent/1", User: "u", Groups: []string{"g", "h"}, Pod: "p", Node: "n"}
	answer, err := newClient(t, s, &open).Call(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	const want = "/prefix/a?b=c [Bearer secret] [agent/1] [u] [g h] [p]"
	if got := string(answer.Body); got != want || answer.Status != http.StatusTooManyRequests || answer.RetryAfter != 3*time.Second {
		t.Errorf("%d after %s: %s", answer.Status, answer.RetryAfter, got)
	}
}

// A body that is larger than all windows arrives.
func TestLargeBody(t *testing.T) {
	s, _ := startServer(t, 10, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	var open atomic.Int64
	c := newClient(t, s, &open)
	body := []byte(strings.Repeat("0123456789", 400_000))
	req := get("/")
	req.Method, req.Type, req.Body = "PUT", "text/plain", body
	answer, err := c.Call(t.Context(), req)
	if err != nil || !bytes.Equal(answer.Body, body) {
		t.Fatalf("err %v, %d bytes came back of %d", err, len(answer.Body), len(body))
	}
}

// Streams beyond the limit of the server get further connections.
func TestMoreStreamsThanOneConnectionTakes(t *testing.T) {
	release := make(chan struct{})
	s, _ := startServer(t, 2, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	var open atomic.Int64
	c := newClient(t, s, &open)
	recorders := make([]*recorder, 5)
	for i := range recorders {
		recorders[i] = newRecorder()
		c.Start(get("/"), recorders[i])
	}
	for _, r := range recorders {
		if h := receive(t, "header", r.header); h.Status != http.StatusOK {
			t.Errorf("status %d", h.Status)
		}
	}
	if n := open.Load(); n < 3 {
		t.Errorf("%d connections are open for 5 streams of which 2 fit", n)
	}
	close(release)
	for _, r := range recorders {
		if err := receive(t, "end", r.end); err != nil {
			t.Error(err)
		}
	}
}

// A stream that is cancelled ends at the server, and gives its place to another one.
func TestCancel(t *testing.T) {
	gone := make(chan struct{})
	s, _ := startServer(t, 1, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/prefix/second" {
			return
		}
		fmt.Fprintln(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	var open atomic.Int64
	r := newRecorder()
	c := newClient(t, s, &open)
	stream := c.Start(get("/"), r)
	receive(t, "data", r.data)
	stream.Cancel()
	receive(t, "end of the request at the server", gone)
	stream.Cancel() // a second time does nothing
	if answer, err := c.Call(t.Context(), get("/second")); err != nil || !answer.OK() || open.Load() != 1 {
		t.Errorf("after a cancelled stream: %v, %d connections", err, open.Load())
	}
	select {
	case err := <-r.end:
		t.Errorf("the handler of a cancelled stream was told of its end: %v", err)
	default:
	}
}

// When a connection breaks, each of its streams ends once, and the next one gets a new
// connection.
func TestBrokenConnection(t *testing.T) {
	s, web := startServer(t, 10, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/prefix/watch" {
			<-r.Context().Done()
		}
	})
	var open atomic.Int64
	c := newClient(t, s, &open)
	recorders := []*recorder{newRecorder(), newRecorder()}
	for _, r := range recorders {
		c.Start(get("/watch"), r)
		receive(t, "header", r.header)
	}
	web.CloseClientConnections()
	for _, r := range recorders {
		if err := receive(t, "end", r.end); err == nil {
			t.Error("a stream of a broken connection has ended well")
		}
	}
	if answer, err := c.Call(t.Context(), get("/")); err != nil || !answer.OK() {
		t.Errorf("after a broken connection: %v", err)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	s, _ := startServer(t, 10, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	var open atomic.Int64
	c := s.NewClient(t.Context(), func(change int) { open.Add(int64(change)) })
	r := newRecorder()
	c.Start(get("/"), r)
	receive(t, "header", r.header)
	c.Close()
	if err := receive(t, "end", r.end); err == nil {
		t.Error("a stream of a closed client has ended well")
	}
	if open.Load() != 0 {
		t.Errorf("%d connections are open", open.Load())
	}
	if _, err := c.Call(t.Context(), get("/")); !errors.Is(err, watchclient.ErrClosed) {
		t.Errorf("a call of a closed client: %v", err)
	}
}

// Requests end with an error if there is no server.
func TestNoServer(t *testing.T) {
	s, web := startServer(t, 10, func(http.ResponseWriter, *http.Request) {})
	web.Close()
	var open atomic.Int64
	if _, err := newClient(t, s, &open).Call(t.Context(), get("/")); err == nil || !strings.Contains(err.Error(), "connect") {
		t.Errorf("without a server: %v", err)
	}
}
