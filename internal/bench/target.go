package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// readSize is a client's buffer: big, so that reading is cheap.
const readSize = 256 << 10

// The media types and encodings that workloads ask for.
const (
	acceptJSON     = "application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf"
	acceptTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

	encodingGzip = "gzip"
	encodingZstd = "zstd"
)

// slowWindow is the flow-control window of slow readers. It keeps the client from
// buffering bytes that they have not read.
const slowWindow = 256 << 10

// targetConfig describes a server to send requests to.
type targetConfig struct {
	// rest holds the address and credentials. Required.
	rest *rest.Config
	// http1 asks for HTTP/1.1. Zero value: HTTP/2, and nothing else.
	http1 bool
}

// target is a server. Requests go through connections of its own, one a
// client, never through a shared pool.
type target struct {
	cfg  targetConfig
	base string
	tls  *tls.Config
}

func newTarget(cfg targetConfig) (*target, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg.rest)
	if err != nil {
		return nil, fmt.Errorf("build TLS settings: %w", err)
	}
	base := cfg.rest.Host
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return &target{cfg: cfg, base: strings.TrimSuffix(base, "/"), tls: tlsConfig}, nil
}

// kubeconfigAt loads one kubeconfig file; "" means what $KUBECONFIG lists.
func kubeconfigAt(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return cfg, nil
}

// conn is one client with one connection. Not for concurrent use.
type conn struct {
	transport *http.Transport
	rt        http.RoundTripper
	buf       []byte // reused for every body
}

// dial returns a client; it connects with its first request. window bounds
// what the server may send ahead of the reader, in bytes; 0 means Go's
// default, which is also what client-go uses.
func (t *target) dial(window int) (*conn, error) {
	transport, rt, err := t.newTransport(window)
	if err != nil {
		return nil, err
	}
	return &conn{transport: transport, rt: rt, buf: make([]byte, readSize)}, nil
}

// newTransport returns one for one connection, and what adds the credentials.
func (t *target) newTransport(window int) (*http.Transport, http.RoundTripper, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(t.cfg.http1)
	protocols.SetHTTP2(!t.cfg.http1)
	transport := &http.Transport{
		Protocols:          protocols,
		DisableCompression: true, // bodies are counted as they come
		MaxConnsPerHost:    1,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: window},
	}
	if t.tls != nil {
		transport.TLSClientConfig = t.tls.Clone()
		transport.TLSClientConfig.NextProtos = nil
	}
	rt, err := rest.HTTPWrappersForConfig(t.cfg.rest, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("build credentials: %w", err)
	}
	return transport, rt, nil
}

// open makes the connection with a cheap request, whose status is ignored.
func (c *conn) open(ctx context.Context, t *target) error {
	req, err := t.newRequest(ctx, request{uri: "/readyz", accept: "*/*"})
	if err != nil {
		return err
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !t.cfg.http1 && resp.ProtoMajor != 2 {
		return fmt.Errorf("server speaks %s, not HTTP/2: pass --http1", resp.Proto)
	}
	if t.cfg.http1 && resp.ProtoMajor != 1 {
		return fmt.Errorf("server speaks %s in spite of --http1", resp.Proto)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// connect opens connections, so that handshakes are not measured.
func (t *target) connect(ctx context.Context, n int) ([]*conn, error) {
	conns := make([]*conn, 0, n)
	for range n {
		c, err := t.dial(0)
		if err == nil {
			conns = append(conns, c)
			err = c.open(ctx, t)
		}
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("connect to server: %w", cause(ctx, err))
		}
	}
	return conns, nil
}

func (c *conn) close() { c.transport.CloseIdleConnections() }

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}

// request describes a GET.
type request struct {
	uri      string // path and query
	accept   string
	encoding string // the value of Accept-Encoding; empty: none is sent
	// etag is the tag of a document that the client has. The answer may be a
	// 304 without a body.
	etag string
}

// newRequest builds a request that may be sent again and again, one at a time.
func (t *target) newRequest(ctx context.Context, w request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+w.uri, nil)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", w.accept)
	req.Header.Set("User-Agent", "millrace-bench")
	if w.encoding != "" {
		req.Header.Set("Accept-Encoding", w.encoding)
	}
	if w.etag != "" {
		req.Header.Set("If-None-Match", w.etag)
	}
	return req, nil
}

// statusError is an answer with another status than the wanted ones.
type statusError struct {
	method, uri, status, text string

	code       int
	retryAfter time.Duration // what the server asks for; zero if nothing
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.method, e.uri, e.status, e.text)
}

// newStatusError reads the beginning of the body, and leaves it open.
func newStatusError(req *http.Request, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &statusError{method: req.Method, uri: req.URL.RequestURI(), status: resp.Status, text: strings.TrimSpace(string(text)),
		code: resp.StatusCode, retryAfter: time.Duration(seconds) * time.Second}
}

// send returns the response of a request if its status is 200, or 304 for one
// with an ETag. The caller closes the body.
func (c *conn) send(req *http.Request) (*http.Response, error) { return send(c.rt, req) }

// send is what a conn does, for connections that the caller has made.
func send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	unchanged := resp.StatusCode == http.StatusNotModified && req.Header.Get("If-None-Match") != ""
	if resp.StatusCode != http.StatusOK && !unchanged {
		defer resp.Body.Close()
		return nil, newStatusError(req, resp)
	}
	return resp, nil
}

// fetch sends a request, discards the body and returns its size on the wire.
func (c *conn) fetch(req *http.Request) (int64, error) {
	resp, err := c.send(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var total int64
	for {
		n, err := resp.Body.Read(c.buf)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("read body after %d bytes: %w", total, err)
		}
	}
}

// fetchAll sends a request and returns the body.
func (c *conn) fetchAll(req *http.Request) ([]byte, error) {
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	return readAll(resp)
}

// readAll reads and closes a body.
func readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}

// get fetches a small JSON document into v; v may be nil.
func (t *target) get(ctx context.Context, uri string, v any) error {
	c, err := t.dial(0)
	if err != nil {
		return err
	}
	defer c.close()
	req, err := t.newRequest(ctx, request{uri: uri, accept: "application/json"})
	if err != nil {
		return err
	}
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", uri, err)
	}
	return nil
}

// version returns the server's gitVersion, or why it is unknown.
func (t *target) version(ctx context.Context) string {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := t.get(ctx, "/version", &info); err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return info.GitVersion
}

// fetchTagged returns a body and its ETag; a 304 has no body and the tag that
// was asked with.
func (c *conn) fetchTagged(req *http.Request) ([]byte, string, error) {
	resp, err := c.send(req)
	if err != nil {
		return nil, "", err
	}
	body, err := readAll(resp)
	etag := resp.Header.Get("ETag")
	if resp.StatusCode == http.StatusNotModified {
		etag = req.Header.Get("If-None-Match")
	}
	return body, etag, err
}

// kubeconfigPath resolves the flag --kubeconfig; "" means what $KUBECONFIG lists.
func kubeconfigPath(kubeconfig, dataDir string) string {
	if kubeconfig != "" || os.Getenv("KUBECONFIG") != "" {
		return kubeconfig
	}
	return filepath.Join(dataDir, "admin.kubeconfig")
}
