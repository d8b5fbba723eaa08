package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Config configures a Server. The zero value is what Kubernetes' API server uses.
type Config struct {
	// MaxConcurrentStreams is the number of streams that a client may have open on one
	// connection, and of handlers that run for it. 0 means 100.
	MaxConcurrentStreams uint32
	// MaxUploadBufferPerStream is the flow-control window of a request's body in bytes. 0
	// means 256 KiB.
	MaxUploadBufferPerStream int32
	// MaxUploadBufferPerConnection is the window of all request bodies of a connection in
	// bytes. Less than 65,535 means MaxConcurrentStreams windows of a stream.
	MaxUploadBufferPerConnection int32
	// MaxReadFrameSize is the largest frame that is accepted, 16 KiB to 16 MiB - 1. 0
	// means 256 KiB.
	MaxReadFrameSize uint32
	// IdleTimeout is how long a connection without streams is kept. 0 means the
	// http.Server's IdleTimeout, or else its ReadTimeout. With neither it is kept for
	// ever.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may leave one buffer (64 KiB) unread before the
	// connection is closed. 0 means for ever, as with Go's server.
	WriteTimeout time.Duration
	// Inline is called with each request that has no body and whose handler need not wait for
	// another handler. If it returns a request, the handler is expected not to block. The
	// goroutine that reads the connection then runs the handler with that request, which saves
	// waking another goroutine. If such a handler blocks all the same, another goroutine
	// continues to read after some milliseconds. nil runs no handler so.
	Inline func(*http.Request) *http.Request
}

const (
	minWindow    = 65535 // initial window of a connection (RFC 9113, 6.9.2)
	maxWindow    = 1<<31 - 1
	minFrameSize = 16 << 10
	maxFrameSize = 1<<24 - 1
)

// withDefaults returns the configuration with the defaults for zero values.
//
// Upstream: k8s.io/apiserver/pkg/server.SecureServingInfo.Serve; compare at each upgrade.
func (c Config) withDefaults() Config {
	if c.MaxConcurrentStreams == 0 {
		c.MaxConcurrentStreams = 100
	}
	if c.MaxUploadBufferPerStream <= 0 {
		c.MaxUploadBufferPerStream = 256 << 10
	}
	if c.MaxUploadBufferPerConnection < minWindow {
		all := int64(c.MaxConcurrentStreams) * int64(c.MaxUploadBufferPerStream)
		c.MaxUploadBufferPerConnection = int32(min(max(all, minWindow), maxWindow))
	}
	if c.MaxReadFrameSize == 0 {
		c.MaxReadFrameSize = 256 << 10
	}
	c.MaxReadFrameSize = min(max(c.MaxReadFrameSize, minFrameSize), maxFrameSize)
	return c
}

// Server serves the HTTP/2 connections of one http.Server.
type Server struct {
	cfg  Config
	date atomic.Pointer[date]

	mu struct {
		sync.Mutex
		conns        map[*conn]struct{}
		shuttingDown bool
		// idleRunners wait for a stream whose handler they run. There are none without
		// connections.
		idleRunners []*handlerRunner
	}
}

// New makes a Server. It serves nothing before Configure.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults()}
	s.mu.conns = make(map[*conn]struct{})
	return s
}

// Configure makes an http.Server hand its HTTP/2 connections to s. It must be called
// once, before the server serves. The http.Server's Shutdown sends GOAWAY to all clients
// and waits for their streams. Its Close closes the connections.
func (s *Server) Configure(hs *http.Server) error {
	if s.cfg.IdleTimeout == 0 {
		s.cfg.IdleTimeout = hs.IdleTimeout
	}
	if s.cfg.IdleTimeout == 0 {
		s.cfg.IdleTimeout = hs.ReadTimeout
	}
	if hs.TLSConfig == nil {
		hs.TLSConfig = new(tls.Config)
	}
	t := hs.TLSConfig
	if t.CipherSuites != nil && t.MinVersion < tls.VersionTLS13 && !slices.ContainsFunc(t.CipherSuites, isRequiredSuite) {
		return errors.New("h2: TLSConfig.CipherSuites lacks an AES_128_GCM_SHA256 suite with ECDHE, which HTTP/2 requires")
	}
	for _, name := range []string{http2.NextProtoTLS, "http/1.1"} {
		if !slices.Contains(t.NextProtos, name) {
			t.NextProtos = append(t.NextProtos, name)
		}
	}
	if hs.TLSNextProto == nil {
		hs.TLSNextProto = make(map[string]func(*http.Server, *tls.Conn, http.Handler))
	}
	hs.TLSNextProto[http2.NextProtoTLS] = s.serveTLS
	hs.RegisterOnShutdown(s.shutdown)
	return nil
}

// serveTLS serves a connection until it ends. The handler carries the context that the
// http.Server made for the connection.
func (s *Server) serveTLS(hs *http.Server, nc *tls.Conn, handler http.Handler) {
	ctx := context.Background()
	if h, ok := handler.(interface{ BaseContext() context.Context }); ok {
		ctx = h.BaseContext()
	}
	c := newConn(s, hs, nc)
	c.handler = handler
	state := nc.ConnectionState()
	c.tls = &state
	c.serve(ctx)
}

func (s *Server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.shuttingDown = true
	for c := range s.mu.conns {
		// A connection that is busy must not hold up the others.
		go c.goAwayGracefully()
	}
}

func (s *Server) isShuttingDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.shuttingDown
}

// register adds a connection. It returns true if the server is already shutting down.
func (s *Server) register(c *conn) (leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.conns[c] = struct{}{}
	return s.mu.shuttingDown
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
	if len(s.mu.conns) == 0 {
		s.stopIdleRunnersLocked()
	}
}

// isRequiredSuite reports whether each HTTP/2 peer with TLS 1.2 has a cipher suite (RFC
// 9113, 9.2.2).
func isRequiredSuite(suite uint16) bool {
	return suite == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || suite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
}

// isAdequateTLS reports whether HTTP/2 may be used over a TLS connection (RFC 9113, 9.2). TLS
// 1.2 must have an ephemeral key exchange and an authenticated cipher.
func isAdequateTLS(state *tls.ConnectionState) bool {
	if state.Version != tls.VersionTLS12 {
		return state.Version > tls.VersionTLS12
	}
	switch state.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return true
	}
	return isRequiredSuite(state.CipherSuite)
}
