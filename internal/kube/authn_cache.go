package kube

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
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
// found by the certificate's address: crypto/tls gives all connections of one
// certificate the same parsed one, and while it is held here its address cannot
// become another's.
type certificateCache struct {
	authenticator.Request
	// proxies are the headers by which a front proxy speaks for others. It may be
	// nil.
	proxies *authenticatorfactory.RequestHeaderConfig
	clock   clock.PassiveClock

	mu struct {
		sync.RWMutex
		known map[*x509.Certificate]verified
		// sweep is when expired entries are looked for.
		sweep time.Time
	}
}

// verified is a successful authentication. Callers only read the response, as
// they do those of Kubernetes' token cache.
type verified struct {
	response *authenticator.Response
	until    time.Time
}

func newCertificateCache(inner authenticator.Request, proxies *authenticatorfactory.RequestHeaderConfig, c clock.PassiveClock) *certificateCache {
	cached := &certificateCache{Request: inner, proxies: proxies, clock: c}
	cached.mu.known = map[*x509.Certificate]verified{}
	return cached
}

// AuthenticateRequest implements authenticator.Request.
func (c *certificateCache) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if !c.decidedByCertificate(req) {
		return c.Request.AuthenticateRequest(req)
	}
	certificate, now := req.TLS.PeerCertificates[0], c.clock.Now()
	if response := c.find(certificate, now); response != nil {
		return response, true, nil
	}
	response, ok, err := c.Request.AuthenticateRequest(req)
	if ok && err == nil && provenBy(response, certificate) {
		c.remember(certificate, response, now)
	}
	return response, ok, err
}

// decidedByCertificate reports whether a request has one certificate and nothing
// else that an authenticator looks at.
func (c *certificateCache) decidedByCertificate(req *http.Request) bool {
	if req.TLS == nil || len(req.TLS.PeerCertificates) != 1 || sent(req, "Authorization") || sent(req, "Sec-WebSocket-Protocol") {
		return false
	}
	return c.proxies == nil || !slices.ContainsFunc(c.proxies.UsernameHeaders.Value(), func(header string) bool { return sent(req, header) })
}

func sent(req *http.Request, header string) bool { return len(req.Header.Values(header)) > 0 }

// provenBy reports whether a response names the certificate as its proof. One
// that does not, of anonymous say, may depend on the request's path.
func provenBy(response *authenticator.Response, certificate *x509.Certificate) bool {
	sum := sha256.Sum256(certificate.Raw)
	return slices.Contains(response.User.GetExtra()[user.CredentialIDKey], "X509SHA256="+hex.EncodeToString(sum[:]))
}

func (c *certificateCache) find(certificate *x509.Certificate, now time.Time) *authenticator.Response {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v, ok := c.mu.known[certificate]; ok && now.Before(v.until) {
		return v.response
	}
	return nil
}

// remember keeps a response until the certificate ends at the latest.
func (c *certificateCache) remember(certificate *x509.Certificate, response *authenticator.Response, now time.Time) {
	until := now.Add(certificateTTL)
	if certificate.NotAfter.Before(until) {
		until = certificate.NotAfter
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.mu.sweep) {
		c.mu.sweep = now.Add(certificateTTL)
		for known, v := range c.mu.known {
			if !now.Before(v.until) {
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
	c.mu.known[certificate] = verified{response: response, until: until}
}
