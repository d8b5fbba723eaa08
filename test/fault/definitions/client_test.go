package definitions

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answerTimeout is how long a request may take. Creations wait for two seconds when their
// definition is new, and busy servers are slow.
const answerTimeout = 60 * time.Second

// client sends requests over one connection that it keeps. A connection that the server ends
// is a finding, also if the transport repeats the request on a new one.
type client struct {
	side  *side
	http  *http.Client
	dials atomic.Int64
	// proto is "HTTP/1.1" or "HTTP/2.0".
	proto string
}

func (s *side) newClient(t *testing.T, what string, http1 bool) *client {
	t.Helper()
	base := s.HTTPClient()
	transport := base.Transport.(*http.Transport).Clone()
	c := &client{side: s, http: &http.Client{Transport: transport}, proto: "HTTP/2.0"}
	if http1 {
		c.proto, transport.ForceAttemptHTTP2 = "HTTP/1.1", false
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	var dialer net.Dialer
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
	// The first request opens the connection, before several share it.
	if a := c.send(t.Context(), call{method: http.MethodGet, path: "/version"}); a.status != http.StatusOK || a.proto != c.proto {
		t.Errorf("%s: open connection: status %d over %s, want 200 over %s: %v", s.name, a.status, a.proto, c.proto, a.err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if n := c.dials.Load(); n != 1 {
			t.Logf("%s: a client over %s for %s opened %d connections", s.name, c.proto, what, n)
		}
	})
	return c
}

// call is a request.
type call struct {
	method, path          string
	accept, content, body string
}

// answer is the answer to a call.
type answer struct {
	status int
	proto  string
	header http.Header
	body   []byte
	// err says why there is no answer.
	err error
}

// failure names what became of a request without an answer. It is "" for one with an answer.
func (a *answer) failure() string {
	switch {
	case a.err == nil:
		return ""
	case errors.Is(a.err, context.DeadlineExceeded):
		return "unanswered"
	}
	return "lost"
}

// open sends a request. It notes a connection that was lost meanwhile.
func (c *client) open(ctx context.Context, r call) (*http.Response, error) {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.side.URL+r.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "definitions")
	for name, value := range map[string]string{"Accept": r.accept, "Content-Type": r.content} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	before := c.dials.Load()
	resp, err := c.http.Do(req)
	if after := c.dials.Load(); before > 0 && after != before {
		c.side.tally.violate("connection lost over "+c.proto, r.method+" "+r.path)
	}
	return resp, err
}

// send sends a request and reads the answer.
func (c *client) send(ctx context.Context, r call) *answer {
	// The end of the changes does not cancel a request: all of them are to be answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	resp, err := c.open(ctx, r)
	if err != nil {
		return &answer{err: err}
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, proto: resp.Proto, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}
