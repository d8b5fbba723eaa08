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

// Config is how a Server serves. The zero value is that of Kubernetes' API server.
type Config struct {
	// MaxConcurrentStreams is how many streams a client may have open on one
	// connection, and how many handlers run for it. 0 is 100.
	MaxConcurrentStreams uint32
	// MaxUploadBufferPerStream is the window of a request's body in bytes. 0 is 256 KiB.
	MaxUploadBufferPerStream int32
	// MaxUploadBufferPerConnection is the window of all bodies of a connection in
	// bytes, 65,535 at least. 0 is MaxConcurrentStreams windows of a stream.
	MaxUploadBufferPerConnection int32
	// MaxReadFrameSize is the largest frame that is read, 16 KiB to 16 MiB - 1.
	// 0 is 256 KiB.
	MaxReadFrameSize uint32
	// IdleTimeout is how long a connection without streams is kept. 0 is the
	// http.Server's IdleTimeout or else its ReadTimeout; with neither, for ever.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may leave one buffer (64 KiB) unread before
	// the connection is closed. 0 is for ever, as with Go's server.
	WriteTimeout time.Duration
	// Inline is asked of each request without a body. If it returns one, its handler is
	// taken to end without waiting for anything, and is run with that by the goroutine
	// that reads the connection, which saves waking another. If the handler waits all
	// the same, another goroutine reads on after some milliseconds.
	Inline func(*http.Request) *http.Request
}

const (
	minWindow    = 65535 // what a connection begins with (RFC 9113, 6.9.2)
	maxWindow    = 1<<31 - 1
	minFrameSize = 16 << 10
	maxFrameSize = 1<<24 - 1
)

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
		// idle are workers without a handler to run; none without connections.
		idleWorkers []*handlerWorker
	}
}

// New makes a Server, which does nothing before Configure.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults()}
	s.mu.conns = make(map[*conn]struct{})
	return s
}

// Configure makes an http.Server hand its HTTP/2 connections to s. It must be
// called once, before the server serves. The server's Shutdown tells clients to go
// elsewhere (GOAWAY) and waits for their streams; its Close closes connections.
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

// serveTLS serves a connection to its end. The handler brings the context that
// the http.Server made for the connection.
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

// register says whether the server is shutting down already.
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
		s.stopIdleWorkersLocked()
	}
}

// isRequiredSuite says whether a cipher suite is one of those that every HTTP/2 peer
// with TLS 1.2 has (RFC 9113, 9.2.2).
func isRequiredSuite(suite uint16) bool {
	return suite == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || suite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
}

// isAdequateTLS says whether HTTP/2 allows a TLS connection: of version 1.3, or of 1.2
// with an ephemeral key exchange and an authenticated cipher (RFC 9113, 9.2).
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
