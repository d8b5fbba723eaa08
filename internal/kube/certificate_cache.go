package kube

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/storage"
)

const (
	// certificateTTL is what Kubernetes keeps a verified token for. So long does
	// a certificate stay accepted after its authority was taken off the list.
	certificateTTL = 10 * time.Second
	// maxCertificates bounds the memory that clients with ever new certificates
	// can take, some 5 KiB each.
	maxCertificates = 10_000
)

// certificateCache remembers who a client certificate stands for, since clients
// send requests by the thousand over one connection and verifying a chain of
// signatures takes longer than answering a GET.
//
// It is asked only where nothing but the certificate decides. What it holds is
// found by the addresses of certificates: crypto/tls gives all connections of one
// certificate the same parsed one, and while it is held here its address cannot
// become another's.
type certificateCache struct {
	authenticator.Request
	// requestHeader are the headers by which a front proxy speaks for others. It may be
	// nil.
	requestHeader *authenticatorfactory.RequestHeaderConfig
	clock         clock.PassiveClock
	// lifetimes is Kubernetes' metric of how long certificates are still valid, nil if
	// there is none.
	lifetimes metrics.ObserverMetric

	mu struct {
		sync.RWMutex
		known map[certificateChain]authentication
		// sweep is when expired entries are looked for.
		nextSweep time.Time
	}
}

// certificateChain is what a client sends: its certificate, and that of the authority, which
// OpenSSL adds when it knows that. Longer ones are not remembered.
type certificateChain [2]*x509.Certificate

// notAfter is when the first of them ends.
func (c certificateChain) notAfter(most time.Time) time.Time {
	for _, certificate := range c {
		if certificate != nil && certificate.NotAfter.Before(most) {
			most = certificate.NotAfter
		}
	}
	return most
}

// authentication is a successful authentication. Callers only read the response, as
// they do those of Kubernetes' token cache.
type authentication struct {
	response *authenticator.Response
	expiry   time.Time
}

func newCertificateCache(inner authenticator.Request, proxies *authenticatorfactory.RequestHeaderConfig, c clock.PassiveClock) *certificateCache {
	cached := &certificateCache{Request: inner, requestHeader: proxies, clock: c, lifetimes: certificateLifetimes()}
	cached.mu.known = map[certificateChain]authentication{}
	return cached
}

// certificateLifetimes finds the metric that Kubernetes' authenticator of certificates
// has to itself.
func certificateLifetimes() metrics.ObserverMetric {
	found, _ := storage.RegisteredMetric(prometheus.NewCounter(prometheus.CounterOpts{
		Name: "apiserver_client_certificate_expiration_seconds",
		Help: "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
	})).(metrics.ObserverMetric)
	return found
}

// AuthenticateRequest implements authenticator.Request.
func (c *certificateCache) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if !c.decidedByCertificate(req) {
		return c.Request.AuthenticateRequest(req)
	}
	var certs certificateChain
	copy(certs[:], req.TLS.PeerCertificates)
	now := c.clock.Now()
	if response := c.cached(certs, now); response != nil {
		if c.lifetimes != nil {
			c.lifetimes.Observe(certs[0].NotAfter.Sub(now).Seconds())
		}
		return response, true, nil
	}
	response, ok, err := c.Request.AuthenticateRequest(req)
	if ok && err == nil && isProofOf(response, certs[0]) {
		c.remember(certs, response, now)
	}
	return response, ok, err
}

// decidedByCertificate reports whether a request has a certificate, with a short chain,
// and nothing else that an authenticator looks at.
func (c *certificateCache) decidedByCertificate(req *http.Request) bool {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || len(req.TLS.PeerCertificates) > len(certificateChain{}) || hasHeader(req, "Authorization") || hasHeader(req, "Sec-WebSocket-Protocol") {
		return false
	}
	return c.requestHeader == nil || !slices.ContainsFunc(c.requestHeader.UsernameHeaders.Value(), func(header string) bool { return hasHeader(req, header) })
}

func hasHeader(req *http.Request, header string) bool { return len(req.Header.Values(header)) > 0 }

// isProofOf reports whether a response names the certificate as its proof. One
// that does not, of anonymous say, may depend on the request's path.
func isProofOf(response *authenticator.Response, certificate *x509.Certificate) bool {
	sum := sha256.Sum256(certificate.Raw)
	return slices.Contains(response.User.GetExtra()[user.CredentialIDKey], "X509SHA256="+hex.EncodeToString(sum[:]))
}

func (c *certificateCache) cached(certs certificateChain, now time.Time) *authenticator.Response {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v, ok := c.mu.known[certs]; ok && now.Before(v.expiry) {
		return v.response
	}
	return nil
}

// remember keeps a response until a certificate ends at the latest.
func (c *certificateCache) remember(certs certificateChain, response *authenticator.Response, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.mu.nextSweep) {
		c.mu.nextSweep = now.Add(certificateTTL)
		for known, v := range c.mu.known {
			if !now.Before(v.expiry) {
				delete(c.mu.known, known)
			}
		}
	}
	for known := range c.mu.known {
		if len(c.mu.known) < maxCertificates {
			break
		}
		delete(c.mu.known, known)
	}
	c.mu.known[certs] = authentication{response: response, expiry: certs.notAfter(now.Add(certificateTTL))}
}
