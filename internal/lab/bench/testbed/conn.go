package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// ReadSize is the size of a client's buffer. It is large, so that reading takes few
// system calls.
const ReadSize = 256 << 10

// SlowWindow is the flow-control window of slow readers, in bytes. It keeps the client's
// transport from buffering bytes that the reader has not read.
const SlowWindow = 256 << 10

// Conn is one client with one connection. It must not be used concurrently.
type Conn struct {
	transport *http.Transport
	rt        http.RoundTripper // transport with the credentials
	Buffer    []byte            // of ReadSize, for the body that is being read
}

// Dial returns a client that connects with its first request. window is the number of bytes that
// the server may send ahead of the reader of a stream. Zero stands for Go's default, as in
// client-go. The caller must call Close.
func (t *Target) Dial(window int) (*Conn, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	return &Conn{transport: transport, rt: rt, Buffer: make([]byte, ReadSize)}, nil
}

// NewTransport returns a transport with a single connection, and the same transport wrapped
// so that it adds the credentials. window is as in Dial.
func (t *Target) NewTransport(window int) (transport *http.Transport, authenticated http.RoundTripper, err error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(t.Config.HTTP1)
	protocols.SetHTTP2(!t.Config.HTTP1)
	transport = &http.Transport{
		Protocols:          protocols,
		DisableCompression: true, // bytes are counted as they arrive
		MaxConnsPerHost:    1,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: window},
	}
	if t.tls != nil {
		transport.TLSClientConfig = t.tls.Clone()
		transport.TLSClientConfig.NextProtos = nil
	}
	authenticated, err = rest.HTTPWrappersForConfig(t.Config.REST, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("build credentials: %w", err)
	}
	return transport, authenticated, nil
}

// open opens the connection with a cheap request. The status does not matter. open fails if the
// server speaks another version of HTTP than the configuration says.
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

// Close closes the connection, unless a request is in flight.
func (c *Conn) Close() { c.transport.CloseIdleConnections() }

// CloseAll calls Close on each of conns.
func CloseAll(conns []*Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// Send sends a request. The status must be 200, or 304 if the request has an If-None-Match
// header. Any other status is a *StatusError. The caller must close the body.
func (c *Conn) Send(req *http.Request) (*http.Response, error) { return Send(c.rt, req) }

// Send does what Conn.Send does, over rt.
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

// Fetch sends a request, reads the body and discards it. It returns the size of the body as
// it was sent, in bytes before decompression.
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

// FetchBody sends a request and returns the body, which the caller owns.
func (c *Conn) FetchBody(req *http.Request) ([]byte, error) {
	resp, err := c.Send(req)
	if err != nil {
		return nil, err
	}
	return readAll(resp)
}

// readAll reads a body to its end and closes it.
func readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}

// FetchTagged sends a request and returns the body and its ETag. For a 304 it returns an empty
// body, and the ETag of the request.
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
