package slo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dialer opens a client's connections.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// http2 returns a client with its own connections. window is the flow-control window
// of each stream, in bytes.
func (d *testServer) http2(window int) *http.Client {
	d.t.Helper()
	tr := d.HTTPClient().Transport.(*http.Transport)
	tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: window}
	return &http.Client{Transport: tr}
}

// http1 returns a client that speaks only HTTP/1.1.
func (d *testServer) http1() *http.Client {
	d.t.Helper()
	tr := d.HTTPClient().Transport.(*http.Transport)
	tr.ForceAttemptHTTP2, tr.Protocols = false, new(http.Protocols)
	tr.Protocols.SetHTTP1(true)
	return &http.Client{Transport: tr}
}

// through makes a client connect with dial, and returns the client.
func through(client *http.Client, dial dialer) *http.Client {
	client.Transport.(*http.Transport).DialContext = dial
	return client
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// ask sends a GET with the user agent of a program. headers are names and values in
// turn. The caller reads the response's body; the test closes it.
func (d *testServer) ask(client *http.Client, agent, path string, headers ...string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.URL+path, nil)
	check(d.t, err)
	req.Header.Set("User-Agent", agent+"/v1.2.3 (linux/amd64)")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	check(d.t, err)
	d.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		d.t.Fatalf("%s: %s: %s", path, resp.Status, body)
	}
	return resp
}

// watch starts a watch of config maps from the current revision. It does not read the
// body.
func (d *testServer) watch(client *http.Client, agent string) *http.Response {
	d.t.Helper()
	resp := d.ask(client, agent, configMaps+"?watch=1&resourceVersion="+d.revision())
	return resp
}

// watchAndDrain starts a watch of config maps and reads its events in a goroutine.
func (d *testServer) watchAndDrain(client *http.Client, agent string) {
	d.t.Helper()
	drain(d.watch(client, agent))
}

func drain(resp *http.Response) {
	go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
}

// revision returns the current revision, from which a watch can start.
func (d *testServer) revision() string {
	d.t.Helper()
	list, err := d.client.CoreV1().ConfigMaps("default").List(d.t.Context(), metav1.ListOptions{Limit: 1})
	check(d.t, err)
	return list.ResourceVersion
}

// write creates n config maps of about size bytes, four at a time.
func (d *testServer) write(prefix string, n, size int) {
	d.t.Helper()
	text := strings.Repeat("x", size)
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", i)}, Data: map[string]string{"text": text}}
				if _, err := d.client.CoreV1().ConfigMaps("default").Create(d.t.Context(), cm, metav1.CreateOptions{}); err != nil {
					d.t.Errorf("create config map: %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// delivered waits until at least n events of config maps were delivered.
func (d *testServer) delivered(n int) {
	d.t.Helper()
	d.until(func(r *serverReports) error {
		if got := r.metrics[`millrace_watch_delivered_events_total{resource="configmaps"}`]; got < float64(n) {
			return fmt.Errorf("%v events were delivered, want %d", got, n)
		}
		return nil
	})
}

// waitFor waits for a duration, or until the test ends.
func waitFor(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// slowProxy is a proxy that passes bytes from the server slowly until fast is closed.
// Bytes that it has not read wait at the server.
type slowProxy struct {
	to   string
	fast chan struct{}
}

const (
	// slowBytes is the number of bytes that the proxy passes per slowPause.
	slowBytes = 4 << 10
	slowPause = 100 * time.Millisecond
	// slowBuffer is the size of the proxy's receive buffer in the kernel.
	slowBuffer = 64 << 10
)

// startSlowProxy starts a proxy in front of the server. It returns the proxy and a
// dialer that connects through it.
func (d *testServer) startSlowProxy() (*slowProxy, dialer) {
	d.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(d.t, err)
	p := &slowProxy{to: strings.TrimPrefix(d.URL, "https://"), fast: make(chan struct{})}
	var conns sync.WaitGroup
	d.t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.serve(d.t.Context(), conn) })
		}
	})
	return p, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, listener.Addr().String())
	}
}

func (p *slowProxy) serve(ctx context.Context, client net.Conn) {
	dial := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer)
		})
	}}
	server, err := dial.DialContext(ctx, "tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		_ = client.Close()
	})
	defer stop()
	defer server.Close()
	defer client.Close()
	go func() { _, _ = io.Copy(server, client) }()
	buf := make([]byte, slowBytes)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
		select {
		case <-p.fast:
			_, _ = io.Copy(client, server)
			return
		case <-time.After(slowPause):
		case <-ctx.Done():
			return
		}
	}
}
