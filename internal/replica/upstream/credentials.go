package upstream

import (
	"context"
	"crypto/x509"
	"maps"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
)

// credentials are the headers of a request that filters remove, or that must not reach
// them.
type credentials struct {
	authorization []string
	// impersonation are the headers that ask the server to act for another user.
	impersonation http.Header
}

type credentialsKey struct{}

func credentialsFrom(ctx context.Context) *credentials {
	if c, ok := ctx.Value(credentialsKey{}).(*credentials); ok {
		return c
	}
	return &credentials{}
}

// ActsForOther reports whether a request that Stash has seen asks to be handled as another
// user's.
func ActsForOther(ctx context.Context) bool { return credentialsFrom(ctx).impersonation != nil }

const (
	authorizationHeader = "Authorization"
	impersonationPrefix = "Impersonate-"
	// webSocketHeader may have a bearer token among the protocols that a browser offers.
	webSocketHeader = "Sec-Websocket-Protocol"
)

// Stash keeps a request's credentials for the Proxy. Kubernetes' filters remove them, and
// they act on headers of impersonation, about which only the upstream may decide.
func Stash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := &credentials{authorization: req.Header[authorizationHeader]}
		header := req.Header
		for name, values := range req.Header {
			if !isImpersonation(name) {
				continue
			}
			if c.impersonation == nil {
				c.impersonation, header = http.Header{}, maps.Clone(req.Header)
			}
			c.impersonation[name] = values
			delete(header, name)
		}
		req = req.WithContext(context.WithValue(req.Context(), credentialsKey{}, c))
		req.Header = header
		next.ServeHTTP(w, req)
	})
}

// stranger is the user of a request whose credentials the upstream does not know, or
// which has none.
type stranger struct{ user.DefaultInfo }

// IsStranger reports whether an authenticator could not find out who a user is.
func IsStranger(u user.Info) bool {
	_, unknown := u.(*stranger)
	return unknown
}

// certificateUser is a user whom a client certificate proves, or a trusted front proxy.
type certificateUser struct{ user.Info }

// authentication finds out who sends a request, and accepts every request. A user that it
// cannot tell is a stranger, whose requests are passed on.
type authentication struct {
	// upstream authenticates by the upstream's rules.
	upstream authenticator.Request
}

// NewAuthenticator makes an authenticator that accepts every request. upstream authenticates
// by the upstream's rules.
func NewAuthenticator(upstream authenticator.Request) authenticator.Request {
	return authentication{upstream}
}

// AuthenticateRequest implements authenticator.Request. A certificate comes first, as in
// Kubernetes.
func (a authentication) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		if found := a.authenticate(withoutToken(req)); found != nil {
			proven := *found // caches share it
			proven.User = certificateUser{found.User}
			return &proven, true, nil
		}
	}
	if len(req.Header[authorizationHeader]) > 0 {
		if found := a.authenticate(withoutCertificate(req)); found != nil {
			return found, true, nil
		}
	}
	return &authenticator.Response{User: &stranger{user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}}, true, nil
}

// authenticate returns nil for a user that is not known, also after an error: the upstream
// gets the same request next, and answers.
func (a authentication) authenticate(req *http.Request) *authenticator.Response {
	found, ok, err := a.upstream.AuthenticateRequest(req)
	if err != nil || !ok || found.User.GetName() == user.Anonymous {
		return nil
	}
	return found
}

// withoutToken returns a request that only a certificate can authenticate. Kubernetes'
// authenticators look for tokens in two headers. They remove headers that they understood, and
// the copy leaves the headers of the request alone.
func withoutToken(req *http.Request) *http.Request {
	stripped := *req
	stripped.Header = maps.Clone(req.Header)
	delete(stripped.Header, authorizationHeader)
	delete(stripped.Header, webSocketHeader)
	return &stripped
}

func withoutCertificate(req *http.Request) *http.Request {
	stripped := *req
	stripped.Header = maps.Clone(req.Header)
	if req.TLS != nil {
		tls := *req.TLS
		tls.PeerCertificates, tls.VerifiedChains = []*x509.Certificate{}, nil
		stripped.TLS = &tls
	}
	return &stripped
}

// impersonationOf names a user in headers of impersonation.
func impersonationOf(u user.Info) transport.ImpersonationConfig {
	return transport.ImpersonationConfig{UserName: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}
