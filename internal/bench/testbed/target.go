package testbed

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

// ReadSize is a client's buffer: big, so that reading is cheap.
const ReadSize = 256 << 10

// The media types and encodings that workloads ask for.
const (
	AcceptJSON     = "application/json"
	AcceptProtobuf = "application/vnd.kubernetes.protobuf"
	AcceptTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

	EncodingGzip = "gzip"
	EncodingZstd = "zstd"
)

// SlowWindow is the flow-control window of slow readers. It keeps the client from
// buffering bytes that they have not read.
const SlowWindow = 256 << 10

// TargetConfig describes a server to send requests to.
type TargetConfig struct {
	// REST holds the address and credentials. Required.
	REST *rest.Config
	// HTTP1 asks for HTTP/1.1. Zero value: HTTP/2, and nothing else.
	HTTP1 bool
}

// Target is a server. Requests go through connections of its own, one a
// client, never through a shared pool.
type Target struct {
	Config  TargetConfig
	BaseURL string
	tls     *tls.Config
}

func NewTarget(cfg TargetConfig) (*Target, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("build TLS settings: %w", err)
	}
	base := cfg.REST.Host
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return &Target{Config: cfg, BaseURL: strings.TrimSuffix(base, "/"), tls: tlsConfig}, nil
}

// LoadKubeconfig loads one kubeconfig file; "" means what $KUBECONFIG lists.
func LoadKubeconfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return cfg, nil
}

// Conn is one client with one connection. Not for concurrent use.
type Conn struct {
	transport *http.Transport
	rt        http.RoundTripper
	Buffer    []byte // reused for every body
}

// Dial returns a client; it connects with its first request. window bounds
// what the server may send ahead of the reader, in bytes; 0 means Go's
// default, which is also what client-go uses.
func (t *Target) Dial(window int) (*Conn, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	return &Conn{transport: transport, rt: rt, Buffer: make([]byte, ReadSize)}, nil
}

// NewTransport returns one for one connection, and what adds the credentials.
func (t *Target) NewTransport(window int) (*http.Transport, http.RoundTripper, error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(t.Config.HTTP1)
	protocols.SetHTTP2(!t.Config.HTTP1)
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
	rt, err := rest.HTTPWrappersForConfig(t.Config.REST, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("build credentials: %w", err)
	}
	return transport, rt, nil
}

// open makes the connection with a cheap request, whose status is ignored.
func (c *Conn) open(ctx context.Context, t *Target) error {
	req, err := t.NewRequest(ctx, Request{URI: "/readyz", Accept: "*/*"})
	if err != nil {
		return err
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !t.Config.HTTP1 && resp.ProtoMajor != 2 {
		return fmt.Errorf("server speaks %s, not HTTP/2: pass --http1", resp.Proto)
	}
	if t.Config.HTTP1 && resp.ProtoMajor != 1 {
		return fmt.Errorf("server speaks %s in spite of --http1", resp.Proto)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Connect opens connections, so that handshakes are not measured.
func (t *Target) Connect(ctx context.Context, n int) ([]*Conn, error) {
	conns := make([]*Conn, 0, n)
	for range n {
		c, err := t.Dial(0)
		if err == nil {
			conns = append(conns, c)
			err = c.open(ctx, t)
		}
		if err != nil {
			CloseAll(conns)
			return nil, fmt.Errorf("connect to server: %w", Cause(ctx, err))
		}
	}
	return conns, nil
}

func (c *Conn) Close() { c.transport.CloseIdleConnections() }

func CloseAll(conns []*Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// Request describes a GET.
type Request struct {
	URI      string // path and query
	Accept   string
	Encoding string // the value of Accept-Encoding; empty: none is sent
	// ETag is the tag of a document that the client has. The answer may be a
	// 304 without a body.
	ETag string
}

// NewRequest builds a request that may be sent again and again, one at a time.
func (t *Target) NewRequest(ctx context.Context, w Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.BaseURL+w.URI, nil)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Accept", w.Accept)
	req.Header.Set("User-Agent", "millrace-bench")
	if w.Encoding != "" {
		req.Header.Set("Accept-Encoding", w.Encoding)
	}
	if w.ETag != "" {
		req.Header.Set("If-None-Match", w.ETag)
	}
	return req, nil
}

// StatusError is an answer with another status than the wanted ones.
type StatusError struct {
	method, uri, status, text string

	code       int
	retryAfter time.Duration // what the server asks for; zero if nothing
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.method, e.uri, e.status, e.text)
}

// newStatusError reads the beginning of the body, and leaves it open.
func newStatusError(req *http.Request, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &StatusError{method: req.Method, uri: req.URL.RequestURI(), status: resp.Status, text: strings.TrimSpace(string(text)),
		code: resp.StatusCode, retryAfter: time.Duration(seconds) * time.Second}
}

// Send returns the response of a request if its status is 200, or 304 for one
// with an ETag. The caller closes the body.
func (c *Conn) Send(req *http.Request) (*http.Response, error) { return Send(c.rt, req) }

// Send is what a conn does, for connections that the caller has made.
func Send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
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

// Fetch sends a request, discards the body and returns its size on the wire.
func (c *Conn) Fetch(req *http.Request) (int64, error) {
	resp, err := c.Send(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var total int64
	for {
		n, err := resp.Body.Read(c.Buffer)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("read body after %d bytes: %w", total, err)
		}
	}
}

// FetchBody sends a request and returns the body.
func (c *Conn) FetchBody(req *http.Request) ([]byte, error) {
	resp, err := c.Send(req)
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

// Get fetches a small JSON document into v; v may be nil.
func (t *Target) Get(ctx context.Context, uri string, v any) error {
	c, err := t.Dial(0)
	if err != nil {
		return err
	}
	defer c.Close()
	req, err := t.NewRequest(ctx, Request{URI: uri, Accept: "application/json"})
	if err != nil {
		return err
	}
	resp, err := c.Send(req)
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

// Version returns the server's gitVersion, or why it is unknown.
func (t *Target) Version(ctx context.Context) string {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := t.Get(ctx, "/version", &info); err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return info.GitVersion
}

// FetchTagged returns a body and its ETag; a 304 has no body and the tag that
// was asked with.
func (c *Conn) FetchTagged(req *http.Request) ([]byte, string, error) {
	resp, err := c.Send(req)
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

// KubeconfigPath resolves the flag --kubeconfig; "" means what $KUBECONFIG lists.
func KubeconfigPath(kubeconfig, dataDir string) string {
	if kubeconfig != "" || os.Getenv("KUBECONFIG") != "" {
		return kubeconfig
	}
	return filepath.Join(dataDir, "admin.kubeconfig")
}
