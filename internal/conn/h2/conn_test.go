package h2_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
)

// TestHTTP1StillWorks requests over HTTP/1.1 and HTTP/2 from one server.
func TestHTTP1StillWorks(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), ours(h2.Config{}))
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}
	t.Cleanup(transport.CloseIdleConnections)
	if _, proto := get(t, &http.Client{Transport: transport}, s.url("/")); proto != "HTTP/1.1" {
		t.Error(proto)
	}
	if _, proto := get(t, s.client(t), s.url("/")); proto != "HTTP/2.0" {
		t.Error(proto)
	}
}

func TestConfigureRefusesCiphers(t *testing.T) {
	hs := &http.Server{TLSConfig: &tls.Config{CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}}
	if h2.New(h2.Config{}).Configure(hs) == nil {
		t.Error("Configure accepts cipher suites without the one that HTTP/2 requires")
	}
}

func TestOldCipherIsRefused(t *testing.T) {
	s := serve(t, http.HandlerFunc(holdHandler), ours(h2.Config{}))
	c, err := tls.Dial("tcp", s.addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := newPeer(t, c).answerTo(1); got != "goaway INADEQUATE_SECURITY" {
		t.Error(got)
	}
}

// TestShutdown checks a graceful shutdown: streams in flight end, streams that cross the
// first GOAWAY are served, and later ones are not.
func TestShutdown(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			close(began)
			<-goOn
		}
		_, _ = io.WriteString(w, "complete")
	}), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet()
	c.headers(1, true, c.get("/"))
	<-began
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testContext(t)) }()
	c.expectGoAway(math.MaxInt32)
	select {
	case err := <-down:
		t.Fatal("Shutdown did not wait for the stream:", err)
	default:
	}
	c.headers(3, true, c.get("/crossing"))
	if got := c.answerTo(3); got != "200" {
		t.Error(got)
	}
	c.expectGoAway(3)
	c.headers(5, true, c.get("/late"))
	close(goOn)
	if got := c.answerTo(1); got != "200" {
		t.Error(got)
	}
	c.waitClosed()
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestStreamsAfterGoAwayAreIgnored has a client that keeps opening streams after the
// first GOAWAY. Only a bounded number of them is served.
func TestStreamsAfterGoAwayAreIgnored(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet()
	c.headers(1, true, c.get("/"))
	c.expectGoAway(math.MaxInt32)
	const crossing = 16
	for i := range 3 * crossing {
		c.headers(uint32(3+2*i), true, c.get("/"))
	}
	c.expectGoAway(1 + 2*crossing)
	c.waitClosed()
}

func TestCloseEndsHandlers(t *testing.T) {
	ended := make(chan error, 2)
	began := make(chan struct{}, 2)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		if r.URL.Path == "/read" {
			_, err := r.Body.Read(make([]byte, 1))
			ended <- err
			return
		}
		<-r.Context().Done()
		_, err := w.Write(make([]byte, 1<<20))
		ended <- err
	}), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet()
	c.headers(1, true, c.get("/"))
	c.headers(3, false, c.get("/read"))
	<-began
	<-began
	s.Close()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("the handler's read or write has no error")
		}
	}
}

func TestIdleTimeout(t *testing.T) {
	s := serve(t, http.HandlerFunc(holdHandler), ours(h2.Config{IdleTimeout: 50 * time.Millisecond}))
	c := dial(t, s.addr)
	c.greet()
	c.headers(1, true, c.get("/")) // keeps the connection
	<-time.After(100 * time.Millisecond)
	if got := c.answerTo(0); got != "" {
		t.Errorf("the connection with a stream is not kept: %s", got)
	}
	_ = c.WriteRSTStream(1, http2.ErrCodeCancel)
	for {
		switch f := c.next().(type) {
		case nil:
			t.Fatal("the connection was closed without GOAWAY")
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				t.Error(f)
			}
			c.waitClosed()
			return
		}
	}
}

// TestConnState compares the calls of the ConnState hook with those of Go's server.
func TestConnState(t *testing.T) {
	run := func(configure func(*http.Server) error) string {
		var mu sync.Mutex
		var states []http.ConnState
		closed := make(chan struct{})
		s := serve(t, http.HandlerFunc(holdHandler), configure, func(hs *http.Server) {
			hs.ConnState = func(_ net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if states = append(states, state); state == http.StateClosed {
					close(closed)
				}
			}
		})
		c := dial(t, s.addr)
		c.greet()
		c.headers(1, true, c.get("/ok"))
		c.answerTo(1)
		c.answerTo(0)
		c.Close()
		<-closed
		return fmt.Sprint(states)
	}
	if got, want := run(ours(h2.Config{})), run(goServer); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// smallBuffers makes the kernel buffer few bytes for clients that do not read.
func smallBuffers(hs *http.Server) {
	hs.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*tls.Conn).NetConn().(*pull.Conn).SetWriteBuffer(4 << 10)
		return ctx
	}
}

// TestFloods sends frames that cost the server more work than the client.
func TestFloods(t *testing.T) {
	var running, most atomic.Int64
	block := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		<-block
		running.Add(-1)
	}), ours(h2.Config{MaxConcurrentStreams: 10}), smallBuffers)
	defer close(block)

	c := dial(t, s.addr)
	c.greet()
	for i := range uint32(100) {
		c.headers(1+2*i, true, c.get("/"))
		_ = c.WriteRSTStream(1+2*i, http2.ErrCodeCancel)
	}
	if got := c.answerTo(0); got != "goaway ENHANCE_YOUR_CALM" {
		t.Errorf("rapid reset: got %s", got)
	}
	if most.Load() > 10 {
		t.Errorf("rapid reset: %d handlers at once", most.Load())
	}

	for name, ask := range map[string]func(*peer) error{
		"ping":     func(c *peer) error { return c.WritePing(false, [8]byte{}) },
		"settings": func(c *peer) error { return c.WriteSettings() },
		"reset":    func(c *peer) error { return c.WriteData(1, false, nil) },
	} {
		flood := new(recorder)
		for asker := newPeer(t, flood); flood.Len() < 64<<10; {
			_ = ask(asker)
		}
		c := dial(t, s.addr)
		_ = c.Conn.(*tls.Conn).NetConn().(*net.TCPConn).SetReadBuffer(4 << 10)
		c.greet()
		c.headers(1, true, c.get("/"))
		var err error
		for err == nil { // the client reads nothing
			_, err = c.Conn.Write(flood.Bytes())
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: the connection was not closed: %v", name, err)
		}
	}
}

// TestStalledClient has a client that reads nothing. Other clients must be served, and
// the handler's write deadline must free the handler.
func TestStalledClient(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	}), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = c.WriteWindowUpdate(0, 1<<31-1-65535)
	c.headers(1, true, c.get("/large"))
	get(t, s.client(t), s.url("/small"))
	if err := <-ended; err == nil {
		t.Error("the handler's read or write has no error")
	}
}

// TestWriteTimeout has a client that reads nothing; Config.WriteTimeout must close its
// connection.
func TestWriteTimeout(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = io.WriteString(w, size1M)
		}
		ended <- err
	}), ours(h2.Config{WriteTimeout: 100 * time.Millisecond}), smallBuffers)
	c := dial(t, s.addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = c.WriteWindowUpdate(0, 1<<31-1-65535)
	c.headers(1, true, c.get("/"))
	select {
	case <-ended:
	case <-testContext(t).Done():
		t.Error("the connection was not closed")
	}
}

// TestManyRequests sends many requests of several kinds at once on one connection.
func TestManyRequests(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/0":
			_, _ = io.WriteString(w, "small")
		case "/1":
			_, _ = io.WriteString(w, size40K)
		case "/2":
			_, _ = io.Copy(w, r.Body)
		case "/3":
			panic(http.ErrAbortHandler)
		case "/4":
			for range 10 {
				_, _ = io.WriteString(w, "x")
				w.(http.Flusher).Flush()
			}
		}
	}), ours(h2.Config{}))
	c := s.client(t)
	want := []string{"small", size40K, size40K, "", strings.Repeat("x", 10)}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for j := range 50 {
				kind := (i + j) % len(want)
				ctx, cancel := context.WithCancel(testContext(t))
				req, _ := http.NewRequestWithContext(ctx, "POST", s.url(fmt.Sprintf("/%d", kind)), strings.NewReader(size40K))
				resp, err := c.Do(req)
				if err == nil && j%7 != 0 {
					var content []byte
					content, err = io.ReadAll(resp.Body)
					if err == nil && string(content) != want[kind] {
						t.Errorf("request /%d: the answer of %d bytes is not the expected one", kind, len(content))
					}
				}
				cancel() // some before they were read
				if err != nil && kind != 3 {
					t.Errorf("request /%d: %v", kind, err)
				}
			}
		})
	}
	all.Wait()
}

// TestRequestTrailers checks that a handler sees announced trailers only, whatever the
// case of their names.
func TestRequestTrailers(t *testing.T) {
	shown := make(chan string, 1)
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		shown <- headerLine(r.Trailer)
	}), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet()
	c.headers(1, false, c.get("/", "trailer", "x-a, Content-Length"))
	_ = c.WriteData(1, false, []byte("x"))
	c.headers(1, true, c.fields("x-a", "1", "x-b", "2"))
	if got := <-shown; got != `X-A=["1"]` {
		t.Error(got)
	}
}

// TestLargeHeader sends a response header that needs more than one frame.
func TestLargeHeader(t *testing.T) {
	value := strings.Repeat("~", 50_000)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", value) }), ours(h2.Config{}))
	resp, _ := get(t, s.client(t), s.url("/"))
	if !slices.Equal(resp.Header["X-Large"], []string{value}) {
		t.Error("the header arrived incomplete")
	}
}
