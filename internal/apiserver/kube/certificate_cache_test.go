package kube

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/legacyregistry"
	clocktesting "k8s.io/utils/clock/testing"
)

// countingAuthenticator counts its calls.
type countingAuthenticator struct {
	calls  int
	answer func(*http.Request) (*authenticator.Response, bool, error)
}

func (c *countingAuthenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	c.calls++
	return c.answer(req)
}

// byCertificate authenticates as Kubernetes' x509 authenticator does.
func byCertificate(req *http.Request) (*authenticator.Response, bool, error) {
	sum := sha256.Sum256(req.TLS.PeerCertificates[0].Raw)
	return &authenticator.Response{User: &user.DefaultInfo{
		Name:  req.TLS.PeerCertificates[0].Subject.CommonName,
		Extra: map[string][]string{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}}, true, nil
}

func certificate(name string, notAfter time.Time) *x509.Certificate {
	cert := &x509.Certificate{Raw: []byte(name), NotAfter: notAfter}
	cert.Subject.CommonName = name
	return cert
}

func requestWith(certs ...*x509.Certificate) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.TLS = &tls.ConnectionState{PeerCertificates: certs}
	return req
}

// newTestCache makes a cache with a fake clock, and with a front proxy that uses a header
// of its own.
func newTestCache(inner *countingAuthenticator) (*certificateCache, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	proxies := &authenticatorfactory.RequestHeaderConfig{UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User", "X-Own-User"}}
	return newCertificateCache(inner, proxies, clock), clock
}

// wantCalls authenticates a request, and checks how often the inner authenticator was
// called so far.
func wantCalls(t *testing.T, c *certificateCache, req *http.Request, want int) {
	t.Helper()
	response, ok, err := c.AuthenticateRequest(req)
	if !ok || err != nil {
		t.Fatalf("not authenticated: %v, %v", ok, err)
	}
	if got, cn := response.User.GetName(), req.TLS.PeerCertificates[0].Subject.CommonName; got != cn {
		t.Fatalf("authenticated as %s, want %s", got, cn)
	}
	if calls := c.Request.(*countingAuthenticator).calls; calls != want {
		t.Fatalf("the inner authenticator was called %d times, want %d", calls, want)
	}
}

func TestCertificateIsVerifiedOnce(t *testing.T) {
	c, clock := newTestCache(&countingAuthenticator{answer: byCertificate})
	far := clock.Now().Add(time.Hour)
	alice, bob := requestWith(certificate("alice", far)), requestWith(certificate("bob", far))
	wantCalls(t, c, alice, 1)
	wantCalls(t, c, alice, 1)
	wantCalls(t, c, bob, 2)
	wantCalls(t, c, requestWith(alice.TLS.PeerCertificates[0]), 2)
	clock.SetTime(clock.Now().Add(certificateTTL))
	wantCalls(t, c, alice, 3)
}

func TestExpiredCertificatesAreNotCached(t *testing.T) {
	c, clock := newTestCache(&countingAuthenticator{answer: byCertificate})
	soon, far := clock.Now().Add(time.Second), clock.Now().Add(time.Hour)
	requests := []*http.Request{
		requestWith(certificate("alice", soon)), requestWith(certificate("bob", soon), certificate("ca", far)), requestWith(certificate("carol", far), certificate("ca", soon)),
	}
	for i, req := range requests {
		wantCalls(t, c, req, i+1)
		wantCalls(t, c, req, i+1)
	}
	clock.SetTime(soon)
	for i, req := range requests {
		wantCalls(t, c, req, len(requests)+i+1)
	}
}

// TestChainsAreCachedSeparately presents a certificate with that of its authority,
// without it, and with another one. A success with one chain must not count for another.
func TestChainsAreCachedSeparately(t *testing.T) {
	c, clock := newTestCache(&countingAuthenticator{answer: byCertificate})
	far := clock.Now().Add(time.Hour)
	alice, ca, other := certificate("alice", far), certificate("ca", far), certificate("other", far)
	for range 2 {
		wantCalls(t, c, requestWith(alice, ca), 1)
	}
	wantCalls(t, c, requestWith(alice), 2)
	wantCalls(t, c, requestWith(alice, other), 3)
	for _, certs := range [][]*x509.Certificate{{alice, ca}, {alice}, {alice, other}} {
		wantCalls(t, c, requestWith(certs...), 3)
	}
}

func TestOtherCredentialsBypassTheCache(t *testing.T) {
	far := time.Unix(2_000_000, 0)
	alice := certificate("alice", far)
	for name, alter := range map[string]func(*http.Request){
		"bearer token": func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
		"empty token":  func(r *http.Request) { r.Header["Authorization"] = []string{""} },
		"websocket token": func(r *http.Request) {
			r.Header.Set("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.eA")
		},
		"front proxy":     func(r *http.Request) { r.Header.Set("X-Remote-User", "carol") },
		"own front proxy": func(r *http.Request) { r.Header.Set("x-own-user", "carol") },
		"intermediates": func(r *http.Request) {
			r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, certificate("between", far), certificate("ca", far))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestCache(&countingAuthenticator{answer: byCertificate})
			wantCalls(t, c, requestWith(alice), 1)
			other := requestWith(alice)
			alter(other)
			wantCalls(t, c, other, 2)
			wantCalls(t, c, other, 3)
			wantCalls(t, c, requestWith(alice), 3)
		})
	}
}

func TestRequestsWithoutCertificateBypassTheCache(t *testing.T) {
	inner := &countingAuthenticator{answer: func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil }}
	c, _ := newTestCache(inner)
	for _, req := range []*http.Request{requestWith(), httptest.NewRequest(http.MethodGet, "/", nil)} {
		if _, ok, err := c.AuthenticateRequest(req); ok || err != nil {
			t.Errorf("authenticated without a certificate: %v, %v", ok, err)
		}
	}
	if inner.calls != 2 {
		t.Errorf("the inner authenticator was called %d times, want 2", inner.calls)
	}
}

func TestOnlyCertificateProofsAreCached(t *testing.T) {
	anonymous := &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous}}
	other, _, _ := byCertificate(requestWith(certificate("bob", time.Time{})))
	for name, answer := range map[string]func(*http.Request) (*authenticator.Response, bool, error){
		"failure":           func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil },
		"error":             func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, errors.New("expired") },
		"anonymous":         func(*http.Request) (*authenticator.Response, bool, error) { return anonymous, true, nil },
		"other certificate": func(*http.Request) (*authenticator.Response, bool, error) { return other, true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inner := &countingAuthenticator{answer: answer}
			c, clock := newTestCache(inner)
			req := requestWith(certificate("alice", clock.Now().Add(time.Hour)))
			for range 2 {
				_, _, _ = c.AuthenticateRequest(req)
			}
			if inner.calls != 2 {
				t.Errorf("the inner authenticator was called %d times, want 2", inner.calls)
			}
		})
	}
}

func TestCertificateCacheIsBounded(t *testing.T) {
	c, clock := newTestCache(&countingAuthenticator{answer: byCertificate})
	far := clock.Now().Add(time.Hour)
	for range maxCertificates + 10 {
		_, _, _ = c.AuthenticateRequest(requestWith(certificate("many", far)))
	}
	if n := len(c.mu.known); n != maxCertificates {
		t.Errorf("holds %d certificates, want %d", n, maxCertificates)
	}
	last := requestWith(certificate("last", far))
	wantCalls(t, c, last, maxCertificates+11)
	wantCalls(t, c, last, maxCertificates+11)
	clock.SetTime(clock.Now().Add(2 * certificateTTL))
	wantCalls(t, c, last, maxCertificates+12)
	if n := len(c.mu.known); n != 1 {
		t.Errorf("holds %d certificates after all others expired", n)
	}
}

// TestCachedCertificatesAreObserved checks that each request with a certificate counts in
// Kubernetes' metric of remaining lifetimes. The cache observes the requests that it
// answers itself, and the inner authenticator observes the others.
func TestCachedCertificatesAreObserved(t *testing.T) {
	const name = "apiserver_client_certificate_expiration_seconds"
	x509request.NewDynamic(nil, nil) // registers it
	if newCertificateCache(nil, nil, nil).lifetimes == nil {
		t.Fatalf("%s is not found", name)
	}
	observed := func() (count uint64, sum float64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name {
				h := f.GetMetric()[0].GetHistogram()
				return h.GetSampleCount(), h.GetSampleSum()
			}
		}
		return 0, 0
	}
	c, clock := newTestCache(&countingAuthenticator{answer: byCertificate})
	req := requestWith(certificate("a", clock.Now().Add(time.Hour)))
	count, sum := observed()
	for range 3 {
		_, _, _ = c.AuthenticateRequest(req)
	}
	again, more := observed()
	if again-count != 2 || more-sum != 2*time.Hour.Seconds() {
		t.Errorf("2 remembered requests: %d observations of %g s", again-count, more-sum)
	}
}
