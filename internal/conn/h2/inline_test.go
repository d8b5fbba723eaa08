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

	"github.com/millrace/millrace/internal/conn/h2"
)

// goroutineID is the number of the calling goroutine.
func goroutineID() string {
	text := make([]byte, 64)
	return strings.Fields(string(text[:runtime.Stack(text, false)]))[1]
}

type inlineKey struct{}

// inlineRequest is a Config.Inline that accepts requests below /inline/ and marks their
// contexts.
func inlineRequest(r *http.Request) *http.Request {
	if !strings.HasPrefix(r.URL.Path, "/inline/") {
		return nil
	}
	return r.WithContext(context.WithValue(r.Context(), inlineKey{}, true))
}

// TestInlineRunsOnReader checks that the reader's goroutine serves a request only if Inline
// accepts it and it has no body. The handler must see the request that Inline returned.
func TestInlineRunsOnReader(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		marked, _ := r.Context().Value(inlineKey{}).(bool)
		_, _ = io.WriteString(w, goroutineID())
		if inline := strings.HasPrefix(r.URL.Path, "/inline/") && r.Method == http.MethodGet; marked != inline {
			t.Errorf("%s %s: marked %v, want %v", r.Method, r.URL, marked, inline)
		}
	})
	s := serve(t, handler, ours(h2.Config{Inline: inlineRequest}))
	client := s.client(t)
	_, reader := get(t, client, s.url("/inline/"))
	for last := ""; last != reader; { // until the reader has not been relieved for being slow
		last = reader
		_, reader = get(t, client, s.url("/inline/"))
	}
	if _, got := get(t, client, s.url("/other")); got == reader {
		t.Error("the reader serves a request that is not inline")
	}
	resp, err := client.Post(s.url("/inline/"), "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) == reader {
		t.Errorf("a request with a body runs in the reader's goroutine %s, or fails: %v", got, err)
	}
}

// TestInlineHandlersMayWait has inline handlers that block. Other requests of the
// connection must be served meanwhile, and after these handlers have returned.
func TestInlineHandlersMayWait(t *testing.T) {
	goOn := map[string]chan struct{}{"/inline/1": make(chan struct{}), "/inline/2": make(chan struct{})}
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
		if _, got := get(t, client, s.url("/inline/other")); got != "/inline/other" {
			t.Errorf("a request beside the waiting ones: got %s", got)
		}
	}
	for path, resp := range waiting {
		close(goOn[path])
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != path {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for range 10 {
		if _, got := get(t, client, s.url("/inline/after")); got != "/inline/after" {
			t.Errorf("a request after the waiting ones: got %s", got)
		}
	}
}

// TestInlineClientLeaves closes the client's connection while an inline handler blocks and
// another goroutine reads. The handler's context must end.
func TestInlineClientLeaves(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/inline/waits" {
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
	resp, err := client.Get(s.url("/inline/waits"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	get(t, client, s.url("/inline/other"))
	conn.Close()
	select {
	case <-ended:
	case <-testContext(t).Done():
		t.Error("the handler's context has not ended")
	}
}
