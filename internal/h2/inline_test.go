package h2_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/h2"
)

// goroutineID is the number of the goroutine that asks.
func goroutineID() string {
	text := make([]byte, 64)
	return strings.Fields(string(text[:runtime.Stack(text, false)]))[1]
}

type inlineKey struct{}

// inlineRequest settles requests below /prompt/ that have no body.
func inlineRequest(r *http.Request) *http.Request {
	if !strings.HasPrefix(r.URL.Path, "/prompt/") {
		return nil
	}
	return r.WithContext(context.WithValue(r.Context(), inlineKey{}, true))
}

// TestInlineRunsOnReader asks which requests the reader answers: prompt ones without a body,
// which come to the handler as they were settled.
func TestInlineRunsOnReader(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		settled, _ := r.Context().Value(inlineKey{}).(bool)
		_, _ = io.WriteString(w, goroutineID())
		if prompt := strings.HasPrefix(r.URL.Path, "/prompt/") && r.Method == http.MethodGet; settled != prompt {
			t.Errorf("%s %s: settled %v", r.Method, r.URL, settled)
		}
	})
	s := serve(t, handler, ours(h2.Config{Inline: inlineRequest}))
	client := s.client(t)
	_, reader := get(t, client, s.url("/prompt/"))
	for last := ""; last != reader; { // who is slow is relieved
		last = reader
		_, reader = get(t, client, s.url("/prompt/"))
	}
	if _, got := get(t, client, s.url("/other")); got == reader {
		t.Error("the reader answers what is not prompt")
	}
	resp, err := client.Post(s.url("/prompt/"), "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) == reader {
		t.Errorf("a body: goroutine %s, %v", got, err)
	}
}

// TestInlineHandlersMayWait has handlers wait that were taken to be prompt: others of the
// connection are served all the same, also when they have ended.
func TestInlineHandlersMayWait(t *testing.T) {
	goOn := map[string]chan struct{}{"/prompt/1": make(chan struct{}), "/prompt/2": make(chan struct{})}
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := goOn[r.URL.Path]; wait != nil {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-wait:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}), ours(h2.Config{Inline: inlineRequest}))
	client := s.client(t)
	waiting := map[string]*http.Response{}
	for path := range goOn {
		resp, err := client.Get(s.url(path))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		waiting[path] = resp
		if _, got := get(t, client, s.url("/prompt/other")); got != "/prompt/other" {
			t.Errorf("another request: %s", got)
		}
	}
	for path, resp := range waiting {
		close(goOn[path])
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != path {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for range 10 {
		if _, got := get(t, client, s.url("/prompt/after")); got != "/prompt/after" {
			t.Errorf("a request after them: %s", got)
		}
	}
}

// TestInlineClientLeaves has the client go while the handler waits, which was taken to be
// prompt, and another goroutine reads: the handler's context ends.
func TestInlineClientLeaves(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prompt/waits" {
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}), ours(h2.Config{Inline: inlineRequest}))
	var conn net.Conn
	client := &http.Client{Transport: &http2.Transport{DialTLSContext: func(_ context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		var err error
		conn, err = tls.Dial(network, addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		return conn, err
	}}}
	resp, err := client.Get(s.url("/prompt/waits"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	get(t, client, s.url("/prompt/other"))
	conn.Close()
	select {
	case <-ended:
	case <-testContext(t).Done():
		t.Error("the handler was not told")
	}
}
