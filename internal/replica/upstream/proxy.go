package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// ProxyConfig of a Proxy.
type ProxyConfig struct {
	// Upstream is how the replica itself reaches the upstream.
	Upstream *rest.Config
	// FrontProxyCert and FrontProxyKey are files of the certificate with which the
	// upstream trusts a front proxy. Both or neither are set.
	FrontProxyCert, FrontProxyKey string
	// MayImpersonate reports whether the upstream lets the replica act for users. It is
	// asked for users of certificates if there is no front proxy's certificate.
	MayImpersonate func(context.Context) bool
	// TokenRefused is told the Authorization header of a user whom the upstream no longer
	// knows. It has ended the connection, and would end it again. It may be nil.
	TokenRefused func(authorization string)
	// Serializer writes errors.
	Serializer runtime.NegotiatedSerializer
	Metrics    *Metrics
	// Logger receives requests that fail on their way. Nil means slog.Default.
	Logger *slog.Logger
}

// Proxy passes requests on to the upstream, and streams bodies, watches and upgraded
// connections in both directions. It buffers nothing: who reads slowly is sent slowly.
//
// It holds a transport for each way to name a user. The one for users with tokens has no
// credentials of the replica's, because the upstream would take these for the user's.
type Proxy struct {
	cfg      ProxyConfig
	upstream *url.URL
	// plain has no credentials, own the replica's, and front the front proxy's. front is
	// empty without such a certificate.
	plain, own, front transports
	// strangers is for requests whose credentials the upstream does not know. It ends the
	// HTTP/2 connection of each, which would end the requests of users on the same one.
	strangers http.RoundTripper
}

// transports are two transports that differ in the protocol: upgrades need HTTP/1.1.
type transports struct{ usual, upgrade http.RoundTripper }

func (t transports) of(req *http.Request) http.RoundTripper {
	if req.Header.Get("Upgrade") != "" {
		return t.upgrade
	}
	return t.usual
}

// NewProxy makes a proxy.
func NewProxy(cfg ProxyConfig) (*Proxy, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	p := &Proxy{cfg: cfg}
	var err error
	if p.upstream, _, err = rest.DefaultServerUrlFor(cfg.Upstream); err != nil {
		return nil, fmt.Errorf("read the upstream's address: %w", err)
	}
	nobody := rest.AnonymousClientConfig(cfg.Upstream)
	if p.plain, err = newTransports(nobody); err != nil {
		return nil, err
	}
	p.strangers = p.plain.upgrade // HTTP/1.1: no two requests share a connection
	if p.own, err = newTransports(cfg.Upstream); err != nil {
		return nil, err
	}
	if cfg.FrontProxyCert == "" {
		return p, nil
	}
	front := rest.CopyConfig(nobody)
	front.TLSClientConfig.CertFile, front.TLSClientConfig.KeyFile = cfg.FrontProxyCert, cfg.FrontProxyKey
	p.front, err = newTransports(front)
	return p, err
}

func newTransports(cfg *rest.Config) (t transports, err error) {
	usual := Uncompressed(cfg)
	usual.UserAgent = "" // the client names itself
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

// Uncompressed returns a configuration whose transport leaves compression to the client of the
// replica. Without protocols, client-go would take Go's default transport for an upstream
// that needs no other TLS settings, and that one compresses.
func Uncompressed(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.DisableCompression = true
	cfg.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	via, identity, err := p.identify(req)
	if err != nil {
		p.cfg.Metrics.Refused.WithLabelValues(CertificateRefused).Inc()
		p.fail(w, req, err)
		return
	}
	p.cfg.Metrics.Requests.WithLabelValues(identity).Inc()
	// The headers are the upstream's, and not those that filters have set already, but for
	// the one by which a filter ends the connection of a client without credentials.
	closes, ends := w.Header()["Connection"]
	if clear(w.Header()); ends {
		w.Header()["Connection"] = closes
	}
	proxy := httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: via, ErrorLog: slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(resp *http.Response) error {
			p.keepHere(resp.Header, req.Host)
			p.noticeRefusal(req, resp.StatusCode)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler) // the client went away
			}
			p.cfg.Logger.Warn("The upstream did not answer a request that was passed on", "path", req.URL.Path, "err", err)
			p.fail(w, req, apierrors.NewServiceUnavailable(fmt.Sprintf(
				"the API server behind this replica does not answer (%v): retry; what the replica holds can be read with resourceVersion=0 while it still knows the rights of the user", err)))
		},
	}
	proxy.ServeHTTP(newFinalWriter(w, req), req)
}

// noticeRefusal tells of a token that the upstream has refused. Programs behind it refuse for
// reasons of their own.
func (p *Proxy) noticeRefusal(req *http.Request, status int) {
	client, _ := request.UserFrom(req.Context())
	info, ok := request.RequestInfoFrom(req.Context())
	behind := ok && (info.Subresource == "proxy" || info.Verb == "proxy")
	if status != http.StatusUnauthorized || behind || p.cfg.TokenRefused == nil || IsStranger(client) || hasCertificate(client) {
		return
	}
	for _, header := range credentialsFrom(req.Context()).authorization {
		p.cfg.TokenRefused(header)
	}
}

// rewrite makes the request for the upstream: it differs from the client's in the host,
// and in the headers that name the user.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	pr.SetURL(p.upstream)
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	header := pr.Out.Header
	for name := range header {
		if strings.HasPrefix(name, frontProxyPrefix) {
			delete(header, name)
		}
	}
	ctx := pr.In.Context()
	kept := credentialsFrom(ctx)
	if client, _ := request.UserFrom(ctx); !hasCertificate(client) && len(kept.authorization) > 0 {
		header[authorizationHeader] = kept.authorization
	}
	maps.Copy(header, kept.impersonation)
	if id, ok := audit.AuditIDFrom(ctx); ok {
		header.Set("Audit-ID", string(id))
	}
	// The upstream's audit log names the addresses on the way.
	if address, _, err := net.SplitHostPort(pr.In.RemoteAddr); err == nil {
		forwarded := append(pr.In.Header["X-Forwarded-For"], address)
		header["X-Forwarded-For"] = []string{strings.Join(forwarded, ", ")}
	}
}

// keepHere changes a redirect to the upstream's address, so that it leads to the same path of
// the host that the client has asked. Programs behind the upstream send such redirects: what
// the upstream hands on as the host of a request is its own.
func (p *Proxy) keepHere(header http.Header, host string) {
	location, err := url.Parse(header.Get("Location"))
	if err != nil || location.Host == "" || location.Host != p.upstream.Host {
		return
	}
	path, ok := strings.CutPrefix(location.EscapedPath(), strings.TrimSuffix(p.upstream.EscapedPath(), "/"))
	if !ok || !strings.HasPrefix(path, "/") {
		return
	}
	here := url.URL{Scheme: location.Scheme, Host: host, RawQuery: location.RawQuery, Fragment: location.Fragment}
	if here.Path, err = url.PathUnescape(path); err != nil {
		return
	}
	here.RawPath = path
	header.Set("Location", here.String())
}

func hasCertificate(client any) bool {
	_, ok := client.(certificateUser)
	return ok
}

// identify chooses how the upstream is told who sends the request. It fails for a user of a
// certificate if there is no way.
func (p *Proxy) identify(req *http.Request) (via http.RoundTripper, identity string, err error) {
	ctx := req.Context()
	kept := credentialsFrom(ctx)
	client, _ := request.UserFrom(ctx)
	unknown := IsStranger(client)
	switch {
	case unknown && len(kept.authorization) > 0:
		return p.strangers, "token", nil
	case unknown:
		return p.strangers, "anonymous", nil
	case !hasCertificate(client):
		return p.plain.of(req), "token", nil
	case p.front.usual != nil:
		return transport.NewAuthProxyRoundTripper(client.GetName(), client.GetUID(), client.GetGroups(), client.GetExtra(), p.front.of(req)), "front-proxy", nil
	}
	// The replica's own Impersonate headers take the place in which the client's stand.
	if kept.impersonation == nil && p.cfg.MayImpersonate(ctx) {
		return transport.NewImpersonatingRoundTripper(impersonationOf(client), p.own.of(req)), "impersonation", nil
	}
	return nil, "", p.refusal(req, client.GetName(), kept.impersonation != nil)
}

// refusal says what to configure, so that users of certificates can be passed on.
func (p *Proxy) refusal(req *http.Request, name string, impersonates bool) error {
	resource, object := schema.GroupResource{}, ""
	if info, ok := request.RequestInfoFrom(req.Context()); ok {
		resource, object = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name
	}
	const advice = "this replica cannot hand on the client certificate of %q: use a bearer token, or start the replica with --proxy-client-cert-file and --proxy-client-key-file%s"
	if impersonates {
		return apierrors.NewForbidden(resource, object, fmt.Errorf(advice, name, ", which impersonation by users of certificates needs"))
	}
	return apierrors.NewForbidden(resource, object, fmt.Errorf(advice, name, ", or give the user in its --kubeconfig the right to impersonate users, groups, uids and userextras"))
}

// CertificateRefused is the label of Metrics.Refused for requests of users whose certificates
// cannot be handed on.
const CertificateRefused = "certificate"

// fail answers with an error of the replica's own.
func (p *Proxy) fail(w http.ResponseWriter, req *http.Request, err error) {
	RespondError(p.cfg.Serializer, w, req, err)
}

// RespondError answers with an error in the form that the client asks for.
func RespondError(serializer runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, err error) {
	gv := schema.GroupVersion{Version: "v1"}
	if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest {
		gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	responsewriters.ErrorNegotiated(err, serializer, gv, w, req)
}
