package h2_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
)

// noteBook has what a handler observed. done is closed when the handler has ended.
type noteBook struct {
	mu    sync.Mutex
	lines []string
	done  chan struct{}
}

func (n *noteBook) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// behaviourCase is a request and a handler. Go's server and ours must look the same to
// both the client and the handler.
type behaviourCase struct {
	name    string
	method  string // "" means GET
	path    string // "" means /
	refused bool   // the request reaches no handler
	body    func() io.Reader
	edit    func(*http.Request)
	server  func(*http.Server)
	handler func(w http.ResponseWriter, r *http.Request, n *noteBook)
}

// TestBehavesLikeGo runs each case on Go's server and on ours, with both of Go's clients.
// Ours runs once with handlers in their own goroutines and once with inline handlers.
func TestBehavesLikeGo(t *testing.T) {
	for _, b := range behaviourCases() {
		t.Run(b.name, func(t *testing.T) {
			for _, client := range []string{"http2", "net/http"} {
				want := b.run(t, goServer, client)
				for _, inline := range []func(*http.Request) *http.Request{nil, func(r *http.Request) *http.Request { return r }} {
					if got := b.run(t, ours(h2.Config{Inline: inline}), client); got != want {
						t.Errorf("with the client of %s, inline: %t:\ngot:\n%s\nGo's:\n%s", client, inline != nil, got, want)
					}
				}
			}
		})
	}
}

// run returns everything that the client and the handler observed.
func (b *behaviourCase) run(t *testing.T, configure func(*http.Server) error, client string) string {
	n := &noteBook{done: make(chan struct{})}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(n.done)
		b.handler(w, r, n)
	})
	var edits []func(*http.Server)
	if b.server != nil {
		edits = append(edits, b.server)
	}
	s := serve(t, handler, configure, edits...)
	saw := b.roundTrip(t, s, client)
	if !b.refused {
		select {
		case <-n.done:
		case <-testContext(t).Done():
			t.Fatal("the handler did not end")
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return saw + "handler: " + strings.Join(n.lines, "\nhandler: ")
}

// roundTrip sends the request and returns what the client observed.
func (b *behaviourCase) roundTrip(t *testing.T, s *testServer, client string) string {
	var saw strings.Builder
	ctx := httptrace.WithClientTrace(testContext(t), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			fmt.Fprintf(&saw, "informed: %d %s\n", code, headerLine(http.Header(header)))
			return nil
		},
	})
	var body io.Reader
	if b.body != nil {
		body = b.body()
	}
	method, path := b.method, b.path
	if method == "" {
		method = "GET"
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url(path), body)
	if err != nil {
		t.Fatal(err)
	}
	if b.edit != nil {
		b.edit(req)
	}
	c := s.client(t)
	if client == "net/http" {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true,
		}
		t.Cleanup(transport.CloseIdleConnections)
		c.Transport = transport
	}
	resp, err := c.Transport.RoundTrip(req)
	if err != nil {
		fmt.Fprintf(&saw, "error: %s\n", errorText(err))
		return saw.String()
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	fmt.Fprintf(&saw, "%s %s length=%d\n%s\n", resp.Proto, resp.Status, resp.ContentLength, headerLine(resp.Header))
	fmt.Fprintf(&saw, "body: %d %.300q error: %s\ntrailer: %s\n", len(content), content, errorText(err), headerLine(resp.Trailer))
	return saw.String()
}

// errorText is an error's text, the same from both clients.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "http2: ", "")
}

// headerLine prints a header in one line, without the current time.
func headerLine(header http.Header) string {
	var lines []string
	for name, values := range header {
		if name == "Date" && len(values) == 1 && strings.HasSuffix(values[0], "GMT") {
			values = []string{"now"}
		}
		lines = append(lines, fmt.Sprintf("%s=%q", name, values))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func textBody(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

// unsizedBody is a body of unknown length.
func unsizedBody(s string) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(s)) }
}

// readAll reads the body and notes the result.
func readAll(r *http.Request, n *noteBook) {
	content, err := io.ReadAll(r.Body)
	n.add("length=%d read %d %.50q error=%v trailer=%s", r.ContentLength, len(content), content, err, headerLine(r.Trailer))
}

// errorKind classifies an error without its wording, which differs between servers.
func errorKind(err error) string {
	var ofStream http2.StreamError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &ofStream):
		return ofStream.Code.String()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, http.ErrBodyNotAllowed):
		return "no body allowed"
	}
	return "other"
}

func setHeaders(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header[pairs[i]] = append(r.Header[pairs[i]], pairs[i+1])
		}
	}
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }
