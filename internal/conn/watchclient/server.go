package watchclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// dialTimeout bounds a connection's TCP and TLS handshakes together. A server under a storm
// of new connections answers late.
const dialTimeout = 30 * time.Second

// Server is where connections go: an address, TLS settings and credentials. Clients share
// it.
type Server struct {
	address   string // host and port
	authority string // the :authority of requests: host, and port if the URL has one
	prefix    string // path in front of all paths
	tls       *tls.Config
	// credentials adds the Authorization header to a request if the user has a token or
	// password. It ends in headerEcho (see authorization).
	credentials http.RoundTripper
	// dialSemaphore bounds the simultaneous handshakes. A send takes a slot, a receive frees
	// it.
	dialSemaphore chan struct{}
}

// NewServer reads the address and credentials, and connects to nothing. maxDials bounds the
// simultaneous handshakes. It must be positive.
func NewServer(cfg *rest.Config, maxDials int) (*Server, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	if base.Scheme != "https" {
		return nil, fmt.Errorf("the server's address is %s: give an https URL", base)
	}
	s := &Server{address: base.Host, authority: base.Host, prefix: strings.TrimSuffix(base.Path, "/"), dialSemaphore: make(chan struct{}, maxDials)}
	if base.Port() == "" {
		s.address = net.JoinHostPort(base.Hostname(), "443")
	}
	if s.tls, err = rest.TLSConfigFor(cfg); err != nil {
		return nil, fmt.Errorf("build TLS settings: %w", err)
	}
	if s.tls == nil {
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	s.tls.NextProtos = []string{"h2"}
	if s.credentials, err = rest.HTTPWrappersForConfig(cfg, headerEcho{}); err != nil {
		return nil, fmt.Errorf("build credentials: %w", err)
	}
	return s, nil
}

// headerEcho answers a request with the request's own headers. It shows which headers
// client-go's credentials add: client-go offers them only as a RoundTripper around another.
type headerEcho struct{}

// RoundTrip implements http.RoundTripper.
func (headerEcho) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: req.Header, Body: http.NoBody}, nil
}

// authorization returns the value of the Authorization header. It is empty if the user has
// a client certificate. Each request computes it again, because tokens expire.
func (s *Server) authorization() (string, error) {
	req := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: s.authority}, Header: http.Header{}}
	resp, err := s.credentials.RoundTrip(req)
	if err != nil {
		return "", fmt.Errorf("get credentials: %w", err)
	}
	return resp.Header.Get("Authorization"), nil
}

// dial makes a connection that speaks HTTP/2.
func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	select {
	case s.dialSemaphore <- struct{}{}:
		defer func() { <-s.dialSemaphore }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if c.(*tls.Conn).ConnectionState().NegotiatedProtocol != "h2" {
		_ = c.Close()
		return nil, errNoHTTP2
	}
	return c, nil
}

var errNoHTTP2 = errors.New("the server does not speak HTTP/2: point --server at the API server itself, not at a proxy for HTTP/1.1")
