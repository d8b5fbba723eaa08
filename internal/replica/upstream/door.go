package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// DoorConfig configures a Door. All fields without a comment on their zero value are needed.
type DoorConfig struct {
	// Upstream is how the replica itself reaches the upstream.
	Upstream *rest.Config
	// FrontProxyCert and FrontProxyKey are files of the certificate with which the
	// upstream trusts a front proxy. Both or neither are set.
	FrontProxyCert, FrontProxyKey string
	// MayFollow reports whether the replica may copy the objects of a resource for its clients.
	MayFollow func(schema.GroupResource) bool
	// StrangersWait is how long a request of an unknown user waits for its turn. Zero means 10 s.
	StrangersWait time.Duration
	Metrics       *Metrics
	// Logger receives requests that the guards refuse. Nil means slog.Default.
	Logger *slog.Logger
}

// Door makes all connections to the upstream. It is safe for concurrent use.
type Door struct {
	cfg  DoorConfig
	host *url.URL
	own  *rest.Config
	// documents asks for documents with the replica's own credentials, through the guard.
	documents *http.Client
	// users is for requests with a user's own token. It has no credentials.
	users transports
	// impersonating is for users of certificates. It has the replica's credentials.
	impersonating transports
	// front has the front proxy's certificate. It is empty if there is none.
	front transports
	// strangers is for requests that have no credentials, or none that the upstream knows. The
	// upstream ends the HTTP/2 connection of each such request, which would end the requests
	// of users on the same connection.
	strangers http.RoundTripper
}

// transports are two transports that differ in the protocol: an upgrade needs HTTP/1.1.
type transports struct{ usual, upgrade http.RoundTripper }

// choose returns the transport for a request.
func (t transports) choose(req *http.Request) http.RoundTripper {
	if req.Header.Get("Upgrade") != "" {
		return t.upgrade
	}
	return t.usual
}

// NewDoor makes a door. It opens no connection.
func NewDoor(cfg DoorConfig) (*Door, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Upstream == nil || cfg.MayFollow == nil || cfg.Metrics == nil {
		return nil, errors.New("make a door to the upstream: the configuration lacks Upstream, MayFollow or Metrics")
	}
	d := &Door{cfg: cfg}
	var err error
	if d.host, _, err = rest.DefaultServerUrlFor(cfg.Upstream); err != nil {
		return nil, fmt.Errorf("read the upstream's address: %w", err)
	}
	d.own = d.guarded(cfg.Upstream, ownIdentity, d.isOwn)
	if d.documents, err = rest.HTTPClientFor(uncompressed(d.own)); err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	d.documents.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	nobody := rest.AnonymousClientConfig(cfg.Upstream)
	if d.users, err = newTransports(nobody); err != nil {
		return nil, err
	}
	strangers, err := newTransports(nobody)
	if err != nil {
		return nil, err
	}
	// Over HTTP/1.1 no two requests share a connection.
	d.strangers = &strangersTransport{next: strangers.upgrade, limiter: NewLimiter(maxStrangers, maxStrangersPerAddress), waitSemaphore: semaphore.NewWeighted(waitingStrangers), wait: cmp.Or(cfg.StrangersWait, strangersWait)}
	if d.impersonating, err = newTransports(d.guarded(cfg.Upstream, impersonationIdentity, mayImpersonate)); err != nil {
		return nil, err
	}
	if cfg.FrontProxyCert == "" {
		return d, nil
	}
	front := rest.CopyConfig(nobody)
	front.TLSClientConfig.CertFile, front.TLSClientConfig.KeyFile = cfg.FrontProxyCert, cfg.FrontProxyKey
	d.front, err = newTransports(d.guarded(front, frontProxyIdentity, mayVouch))
	return d, err
}

// Own returns the configuration of all clients by which the replica asks for itself. Their
// requests go through the guard, whatever makes them.
func (d *Door) Own() *rest.Config { return d.own }

// guarded returns a configuration whose requests go through a guard, after everything that adds
// headers.
func (d *Door) guarded(cfg *rest.Config, identity string, allows func(*http.Request) bool) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &guard{allows: allows, next: next, metrics: d.cfg.Metrics, logger: d.cfg.Logger, identity: identity}
	})
	return cfg
}

// Document asks for a document with the replica's own credentials. The path is byte for byte the
// target's: nothing is cleaned.
func (d *Door) Document(ctx context.Context, target Target, header http.Header) (*http.Response, error) {
	asked := *d.host
	asked.Path, asked.RawPath, asked.RawQuery = strings.TrimSuffix(d.host.Path, "/")+target.path, "", target.query
	req, err := http.NewRequestWithContext(context.WithValue(ctx, targetKey{}, target), http.MethodGet, asked.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for a document: %w", err)
	}
	req.Header = header
	return d.documents.Do(req)
}

// newTransports makes transports that share no connection with other transports.
func newTransports(cfg *rest.Config) (t transports, err error) {
	usual := uncompressed(cfg)
	usual.UserAgent = "" // the client names itself
	// client-go shares the connections of configurations with the same TLS settings, unless they
	// bring a function that dials.
	usual.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	usual.Wrap(boundReceived)
	upgrade := rest.CopyConfig(usual)
	upgrade.TLSClientConfig.NextProtos = []string{"http/1.1"}
	if t.usual, err = rest.TransportFor(usual); err == nil {
		t.upgrade, err = rest.TransportFor(upgrade)
	}
	if err != nil {
		return t, fmt.Errorf("make transport to the upstream: %w", err)
	}
	return t, nil
}

// receiveBuffer is how many bytes of an answer over HTTP/2 are held that its client has not
// read yet. Go's 4 MiB, for each request in flight, would be more memory than some machines
// have. receiveBuffer also bounds the bytes that an answer gets in one round trip to the
// upstream.
const receiveBuffer = 512 << 10

// boundReceived sets receiveBuffer for a transport that nobody uses yet, and returns it.
func boundReceived(transport http.RoundTripper) http.RoundTripper {
	for at := transport; at != nil; {
		if t, ok := at.(*http.Transport); ok {
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: receiveBuffer}
			break
		}
		inner, ok := at.(utilnet.RoundTripperWrapper)
		if !ok {
			break
		}
		at = inner.WrappedRoundTripper()
	}
	return transport
}

// dialTimeout is client-go's bound for opening a connection, and its period of keep-alives.
//
// Upstream: k8s.io/client-go/transport.tlsTransportCache.get; compare at each upgrade.
const dialTimeout = 30 * time.Second

// uncompressed returns a configuration whose transport leaves compression to the client of the
// replica. Without protocols, client-go would take Go's default transport for an upstream that
// needs no other TLS settings, and the default transport compresses.
func uncompressed(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.DisableCompression = true
	cfg.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}
