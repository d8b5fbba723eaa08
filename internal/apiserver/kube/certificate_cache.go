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

	"github.com/millrace/millrace/internal/tier/storage"
)

const (
	// certificateTTL is how long a user is remembered, as long as Kubernetes caches a verified
	// token. A certificate may be accepted for that long after its authority was removed from
	// the trusted ones.
	certificateTTL = 10 * time.Second
	// maxCertificates bounds the memory that clients with ever new certificates can take,
	// about 5 KiB each.
	maxCertificates = 10_000
)

// certificateCache remembers which user a client certificate stands for. Clients send
// thousands of requests over one connection, and to verify a chain of signatures takes
// longer than to answer a GET.
//
// It remembers only answers that depend on nothing but the certificate. All other requests
// go to the inner authenticator.
//
// Keys are addresses of parsed certificates. crypto/tls shares one parsed certificate
// among all connections that present it. An address cannot be reused while the cache
// holds the certificate.
type certificateCache struct {
	authenticator.Request
	// requestHeader has the headers by which a front proxy names users. It is nil if front
	// proxies are not configured.
	requestHeader *authenticatorfactory.RequestHeaderConfig
	clock         clock.PassiveClock
	// lifetimes is Kubernetes' metric of the remaining validity of certificates. It is
	// nil if that metric is not registered.
	lifetimes metrics.ObserverMetric

	mu struct {
		sync.RWMutex
		known map[certificateChain]authentication
		// nextSweep is when expired entries are removed next.
		nextSweep time.Time
	}
}

// certificateChain is what a client presents: its certificate, and perhaps the
// certificate of the authority, which OpenSSL adds if it knows it. Longer chains are not
// cached.
type certificateChain [2]*x509.Certificate

// notAfter returns the earliest time at which a certificate of the chain expires, at most
// latest.
func (c certificateChain) notAfter(latest time.Time) time.Time {
	for _, certificate := range c {
		if certificate != nil && certificate.NotAfter.Before(latest) {
			latest = certificate.NotAfter
		}
	}
	return latest
}

// authentication is a cached success. Callers only read the response, as they do with
// responses of Kubernetes' token cache.
type authentication struct {
	response *authenticator.Response
	expiry   time.Time
}

func newCertificateCache(inner authenticator.Request, proxies *authenticatorfactory.RequestHeaderConfig, c clock.PassiveClock) *certificateCache {
	cached := &certificateCache{Request: inner, requestHeader: proxies, clock: c, lifetimes: certificateLifetimes()}
	cached.mu.known = map[certificateChain]authentication{}
	return cached
}

// certificateLifetimes finds the metric, which is private to Kubernetes' certificate
// authenticator.
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/x509.clientCertificateExpirationHistogram; compare at each upgrade.
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

// decidedByCertificate reports whether a request has a short certificate chain and no
// other credential that an authenticator looks at.
//
// Upstream: k8s.io/kubernetes/pkg/kubeapiserver/authenticator.Config.New; compare at each upgrade.
func (c *certificateCache) decidedByCertificate(req *http.Request) bool {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || len(req.TLS.PeerCertificates) > len(certificateChain{}) || hasHeader(req, "Authorization") || hasHeader(req, "Sec-WebSocket-Protocol") {
		return false
	}
	return c.requestHeader == nil || !slices.ContainsFunc(c.requestHeader.UsernameHeaders.Value(), func(header string) bool { return hasHeader(req, header) })
}

func hasHeader(req *http.Request, header string) bool { return len(req.Header.Values(header)) > 0 }

// isProofOf reports whether a response names the certificate as its proof. Other
// responses, such as the response for the anonymous user, may depend on the request's
// path.
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/x509.CommonNameUserConversion; compare at each upgrade.
func isProofOf(response *authenticator.Response, certificate *x509.Certificate) bool {
	sum := sha256.Sum256(certificate.Raw)
	return slices.Contains(response.User.GetExtra()[user.CredentialIDKey], "X509SHA256="+hex.EncodeToString(sum[:]))
}

// cached returns the response for a chain. It returns nil if no response is valid.
func (c *certificateCache) cached(certs certificateChain, now time.Time) *authenticator.Response {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v, ok := c.mu.known[certs]; ok && now.Before(v.expiry) {
		return v.response
	}
	return nil
}

// remember caches a response for certificateTTL, but not beyond the expiry of a certificate.
// At maxCertificates it drops entries, no matter which.
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
