package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/metrics"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/internal/conn/pull"
)

const (
	// The limits are the same as in Kubernetes' own HTTP server.
	//
	// Upstream: k8s.io/apiserver/pkg/server.SecureServingInfo.Serve; compare at each upgrade.
	maxHeaderBytes    = 1 << 20
	idleTimeout       = 90 * time.Second
	readHeaderTimeout = 32 * time.Second
	tcpKeepAlive      = 3 * time.Minute
	defaultStreams    = 100
	// stallTimeout is how long a client may take none of the bytes that wait for it. It
	// is long because watches that pause for minutes should go on; nothing is kept for
	// ever.
	stallTimeout = 15 * time.Minute
	// quickShutdown is the shutdown timeout with --shutdown-send-retry-after, where Kubernetes
	// closes the listener after the requests have ended.
	quickShutdown = 2 * time.Second
)

// frontServer is the HTTP server in front of Kubernetes' handlers. It replaces the one
// that Kubernetes makes for itself, which only knows Go's HTTP/2 server.
//
// Kubernetes' server stays in place, with a frontServer as its listener. Accept never
// returns a connection. The first call of Accept is the signal to begin serving, and
// Close is the signal to stop.
type frontServer struct {
	net.Listener
	server          *http.Server
	shutdownTimeout time.Duration
	begin           sync.Once
	closed          chan struct{}
	shutDownOnce    func() error
	// onFailure is called with the error that ended listening without a Close. It is set
	// before the server runs.
	onFailure func(error)
}

// useFrontServer replaces the listener of a generic server with a frontServer. protocols
// is Hooks.Protocols. It is called when the http.Server has its handler and the base of its
// TLS configuration. inline is Protocols.Inline, and may be nil.
//
// Upstream: k8s.io/apiserver/pkg/server.SecureServingInfo.Serve; compare at each upgrade.
func useFrontServer(generic *genericapiserver.GenericAPIServer, protocols func(*http.Server, Protocols) error, inline func(*http.Request) *http.Request) (*frontServer, error) {
	serving := generic.SecureServingInfo
	certificates, err := servingCertificates(serving)
	if err != nil {
		return nil, err
	}
	f := &frontServer{
		Listener:        serving.Listener,
		shutdownTimeout: generic.ShutdownTimeout,
		closed:          make(chan struct{}),
		server: &http.Server{
			Addr:              serving.Listener.Addr().String(),
			Handler:           generic.Handler,
			TLSConfig:         certificates.base,
			MaxHeaderBytes:    maxHeaderBytes,
			IdleTimeout:       idleTimeout,
			ReadHeaderTimeout: readHeaderTimeout,
			ErrorLog:          log.New(httpErrorLog{}, "", 0),
		},
	}
	if generic.ShutdownSendRetryAfter {
		f.shutdownTimeout = quickShutdown
	}
	streams := serving.HTTP2MaxStreamsPerConnection
	switch {
	case serving.DisableHTTP2:
		streams = 0
	case streams <= 0:
		streams = defaultStreams
	}
	if err := protocols(f.server, Protocols{Streams: streams, Inline: inline}); err != nil {
		return nil, fmt.Errorf("configure HTTP: %w", err)
	}
	f.server.TLSConfig.GetConfigForClient = certificates.forClient
	f.shutDownOnce = sync.OnceValue(f.shutdown)
	go certificates.run(1, f.closed)
	serving.Listener = f
	return f, nil
}

// Accept implements net.Listener. It blocks until the listener is closed.
func (f *frontServer) Accept() (net.Conn, error) {
	f.begin.Do(func() {
		klog.InfoS("Serving securely", "address", f.server.Addr)
		go f.serve()
	})
	<-f.closed
	return nil, net.ErrClosed
}

func (f *frontServer) serve() {
	listener := pull.NewListener(keepAliveListener{f.Listener}, stallTimeout)
	err := f.server.Serve(tls.NewListener(listener, f.server.TLSConfig))
	if !errors.Is(err, http.ErrServerClosed) {
		f.onFailure(fmt.Errorf("listening on %s ended by itself: %w", f.server.Addr, err))
	}
}

// Close implements net.Listener. It returns when all connections have ended, or after
// shutdownTimeout, because Kubernetes tears down its storage after that.
func (f *frontServer) Close() error { return f.shutDownOnce() }

// shutdown stops listening, then waits up to shutdownTimeout for the connections to end.
//
// Upstream: k8s.io/apiserver/pkg/server.RunServer; compare at each upgrade.
func (f *frontServer) shutdown() error {
	close(f.closed)
	ctx, cancel := context.WithTimeout(context.Background(), f.shutdownTimeout)
	defer cancel()
	err := f.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		klog.InfoS("Connections were still busy at the end of the time for shutting down", "timeout", f.shutdownTimeout)
		return nil
	}
	return err
}

// keepAliveListener sets the TCP keep-alive period, so that vanished clients are noticed.
//
// Upstream: k8s.io/apiserver/pkg/server.tcpKeepAliveListener; compare at each upgrade.
type keepAliveListener struct{ net.Listener }

func (l keepAliveListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlivePeriod(tcpKeepAlive)
	}
	return conn, err
}

// certificates are the server's certificates.
type certificates struct {
	// base has all TLS settings but the certificates. forClient adds the current ones.
	base      *tls.Config
	forClient func(*tls.ClientHelloInfo) (*tls.Config, error)
	// run takes over changes of the certificates until stop is closed.
	run func(workers int, stop <-chan struct{})
}

// servingCertificates makes the TLS configuration and follows the sources of
// certificates. Kubernetes starts these sources itself when it begins to listen.
//
// Upstream: k8s.io/apiserver/pkg/server.SecureServingInfo.tlsConfig; compare at each upgrade.
func servingCertificates(s *genericapiserver.SecureServingInfo) (*certificates, error) {
	base := &tls.Config{
		MinVersion:       tls.VersionTLS12,
		NextProtos:       []string{"h2", "http/1.1"},
		CipherSuites:     s.CipherSuites,
		CurvePreferences: s.CurvePreferences,
	}
	if s.DisableHTTP2 {
		base.NextProtos = []string{"http/1.1"}
	}
	for _, name := range insecureCiphers(s.CipherSuites) {
		klog.Warningf("Use of insecure cipher '%s' detected.", name)
	}
	if s.MinTLSVersion > 0 {
		base.MinVersion = s.MinTLSVersion
	}
	if s.ClientCA != nil {
		// The authenticators verify certificates; other requests need none.
		base.ClientAuth = tls.RequestClientCert
	}
	dynamic := dynamiccertificates.NewDynamicServingCertificateController(base, s.ClientCA, s.Cert, s.SNICerts, nil)
	if s.ClientCA != nil {
		s.ClientCA.AddListener(dynamic)
	}
	if s.Cert != nil {
		s.Cert.AddListener(dynamic)
	}
	for _, named := range s.SNICerts {
		named.AddListener(dynamic)
	}
	if err := dynamic.RunOnce(); err != nil {
		return nil, fmt.Errorf("read serving certificates: %w", err)
	}
	return &certificates{base: base, forClient: dynamic.GetConfigForClient, run: dynamic.Run}, nil
}

// insecureCiphers returns the names of the insecure cipher suites, in the order of
// suites.
//
// Upstream: k8s.io/apiserver/pkg/server.SecureServingInfo.tlsConfig; compare at each upgrade.
func insecureCiphers(suites []uint16) []string {
	var names []string
	for _, suite := range suites {
		for name, id := range cliflag.InsecureTLSCiphers() {
			if id == suite {
				names = append(names, name)
			}
		}
	}
	return names
}

// httpErrorLog receives the lines of the http.Server's error log. Any client can cause
// failed handshakes, so these are counted and only logged at level 5.
//
// Upstream: k8s.io/apiserver/pkg/server.tlsHandshakeErrorWriter; compare at each upgrade.
type httpErrorLog struct{}

func (httpErrorLog) Write(p []byte) (int, error) {
	if line := strings.TrimSpace(string(p)); strings.Contains(line, "http: TLS handshake error") {
		klog.V(5).Info(line)
		metrics.TLSHandshakeErrors.Inc()
	} else {
		klog.Warning(line)
	}
	return len(p), nil
}
