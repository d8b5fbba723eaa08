package harness

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// StartVersionProxy starts a proxy of a server. Through the proxy the server claims to be minors
// minor versions newer, or older if minors is negative. The proxy passes a request on with the
// certificate that its client has, the administrator's or the front proxy's. The result is the
// server with the proxy's address.
//
// change is called with each line of JSON that the server sends, and returns the line that the
// client receives. It may be nil.
func StartVersionProxy(tb testing.TB, s *Server, minors int, change func(path string, line []byte) []byte) *Server {
	tb.Helper()
	return StartChangingVersionProxy(tb, s, minors, change).Server
}

// UpgradedServer is a proxy of a server, whose version changes.
type UpgradedServer struct {
	*Server
	proxy       *versionProxy
	connections *openConnections
}

// Upgrade changes the number of minor versions and ends all connections, as an upgrade does.
func (u *UpgradedServer) Upgrade(minors int) {
	u.proxy.minors.Store(int64(minors))
	u.connections.closeAll()
}

// RefuseBy answers requests with 403 from now on, if refuses returns true for their paths.
func (u *UpgradedServer) RefuseBy(refuses func(path string) bool) { u.proxy.refuses.Store(&refuses) }

// StartChangingVersionProxy does what StartVersionProxy does, for a version that Upgrade can
// change.
func StartChangingVersionProxy(tb testing.TB, s *Server, minors int, change func(path string, line []byte) []byte) *UpgradedServer {
	tb.Helper()
	p := &versionProxy{tb: tb, target: &url.URL{Scheme: "https", Host: strings.TrimPrefix(s.URL, "https://")}, change: change, transports: map[string]http.RoundTripper{}}
	p.minors.Store(int64(minors))
	pki := filepath.Join(s.DataDir, "pki")
	config := s.Config()
	p.roots = x509.NewCertPool()
	p.roots.AppendCertsFromPEM(config.CAData)
	admin, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		tb.Fatalf("read the administrator's certificate: %v", err)
	}
	front, err := tls.LoadX509KeyPair(filepath.Join(pki, "front-proxy-client.crt"), filepath.Join(pki, "front-proxy-client.key"))
	if err != nil {
		tb.Fatalf("read the front proxy's certificate: %v", err)
	}
	p.addTransport("")
	p.addTransport(string(admin.Certificate[0]), admin)
	p.addTransport(string(front.Certificate[0]), front)
	own, err := tls.LoadX509KeyPair(filepath.Join(pki, "apiserver.crt"), filepath.Join(pki, "apiserver.key"))
	if err != nil {
		tb.Fatalf("read the server's certificate: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	served := &http.Server{
		Handler:   &httputil.ReverseProxy{Rewrite: p.rewrite, Transport: p, ModifyResponse: p.modify, FlushInterval: -1, ErrorHandler: badGateway},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	connections := &openConnections{}
	served.ConnState = connections.note
	go func() { _ = served.ServeTLS(listener, "", "") }()
	tb.Cleanup(func() { _ = served.Close() })
	proxied := &Server{Process: s.Process, URL: "https://" + listener.Addr().String(), DataDir: s.DataDir, args: s.args}
	return &UpgradedServer{Server: proxied, proxy: p, connections: connections}
}

// versionProxy is the proxy that StartVersionProxy starts.
type versionProxy struct {
	tb     testing.TB
	target *url.URL
	roots  *x509.CertPool
	minors atomic.Int64
	change func(path string, line []byte) []byte
	// refuses is set by UpgradedServer.RefuseBy. It may be nil.
	refuses atomic.Pointer[func(path string) bool]
	// transports has a transport for each client certificate, in DER form, and for "".
	transports map[string]http.RoundTripper
}

func (p *versionProxy) addTransport(certificate string, pairs ...tls.Certificate) {
	t := &http.Transport{
		TLSClientConfig:    &tls.Config{Certificates: pairs, RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
	p.tb.Cleanup(t.CloseIdleConnections)
	p.transports[certificate] = t
}

// openConnections has the connections of a server's clients.
type openConnections struct {
	mu struct {
		sync.Mutex
		open map[net.Conn]bool
	}
}

// note is an http.Server.ConnState.
func (c *openConnections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.mu.open == nil {
			c.mu.open = map[net.Conn]bool{}
		}
		c.mu.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.mu.open, conn)
	}
}

// closeAll ends all connections.
func (c *openConnections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.mu.open {
		_ = conn.Close()
	}
}

// badGateway answers a request whose client or server is gone.
func badGateway(w http.ResponseWriter, _ *http.Request, _ error) {
	w.WriteHeader(http.StatusBadGateway)
}

// rewrite is a httputil.ReverseProxy.Rewrite. An answer that the proxy changes must not be
// compressed.
func (p *versionProxy) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(p.target)
	r.Out.Host = r.In.Host
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header.Values(name); len(values) > 0 {
			r.Out.Header[name] = values
		}
	}
	if p.change != nil || isVersion(r.Out) {
		r.Out.Header.Del("Accept-Encoding")
	}
	r.Out.TLS = r.In.TLS
}

// RoundTrip implements http.RoundTripper.
func (p *versionProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if refuses := p.refuses.Load(); refuses != nil && (*refuses)(req.URL.Path) {
		return &http.Response{Request: req, StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}, ProtoMajor: 1, ProtoMinor: 1}, nil
	}
	certificate := ""
	if chain := req.TLS.PeerCertificates; len(chain) > 0 {
		certificate = string(chain[0].Raw)
	}
	transport := p.transports[certificate]
	if transport == nil {
		return nil, fmt.Errorf("pass a request on: unknown certificate of %s", req.TLS.PeerCertificates[0].Subject)
	}
	return transport.RoundTrip(req)
}

func isVersion(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/version") }

var (
	minorField = regexp.MustCompile(`("(?:minor|emulationMinor)": ?")(\d+)`)
	gitField   = regexp.MustCompile(`("gitVersion": ?"v\d+\.)(\d+)`)
)

// modify changes an answer. It is a httputil.ReverseProxy.ModifyResponse.
func (p *versionProxy) modify(resp *http.Response) error {
	isJSON := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	switch {
	case isVersion(resp.Request):
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		resp.Body.Close()
		for _, field := range []*regexp.Regexp{minorField, gitField} {
			body = field.ReplaceAllFunc(body, p.shift(field))
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	case isJSON && p.change != nil:
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		resp.Body = p.changeLines(resp.Request.URL.Path, resp.Body)
	}
	return nil
}

// shift returns a replacement for a field that adds the minor versions to its number.
func (p *versionProxy) shift(field *regexp.Regexp) func([]byte) []byte {
	return func(found []byte) []byte {
		parts := field.FindSubmatch(found)
		minor, _ := strconv.Atoi(string(parts[2]))
		return fmt.Appendf(bytes.Clone(parts[1]), "%d", minor+int(p.minors.Load()))
	}
}

// changeLines returns a body with each line replaced by p.change.
func (p *versionProxy) changeLines(path string, body io.ReadCloser) io.ReadCloser {
	changed, out := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				if _, writeErr := out.Write(p.change(path, line)); writeErr != nil {
					return
				}
			}
			if err != nil {
				_ = out.CloseWithError(err)
				return
			}
		}
	}()
	return changed
}
