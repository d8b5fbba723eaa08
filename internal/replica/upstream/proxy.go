package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
)

// ProxyConfig configures a Proxy. All fields without a comment on their zero value are needed.
type ProxyConfig struct {
	Door *Door
	// MayImpersonate reports whether the upstream lets the replica act for users. It is
	// asked for users of certificates if no front proxy's certificate can be used.
	MayImpersonate func(context.Context) bool
	// TokenRefused is called with an Authorization header that the replica took for good and
	// the upstream has just refused. It may be nil.
	TokenRefused func(authorization string)
	// FrontProxy returns by which headers the upstream lets a front proxy name users.
	FrontProxy func() FrontProxyHeaders
	// Serializer writes errors.
	Serializer runtime.NegotiatedSerializer
	Metrics    *Metrics
	// Logger receives requests that fail on their way. Nil means slog.Default.
	Logger *slog.Logger
}

// Proxy passes requests on to the upstream, and streams bodies, watches and upgraded
// connections in both directions. A client that reads slowly is sent slowly: no more than
// receiveBuffer of its answer is held.
//
// Each way to name a user has a transport of the Door's. The transport for users with tokens
// has no credentials of the replica, because the upstream would take them for the user's.
type Proxy struct {
	cfg  ProxyConfig
	door *Door
}

// NewProxy makes a proxy.
func NewProxy(cfg ProxyConfig) *Proxy {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Proxy{cfg: cfg, door: cfg.Door}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := checkPath(req); err != nil {
		p.refuse(w, req, PathRefused, err)
		return
	}
	via, identity, err := p.identify(req)
	if err != nil {
		p.refuse(w, req, CertificateRefused, err)
		return
	}
	p.cfg.Metrics.Requests.WithLabelValues(identity).Inc()
	// The headers of the answer are the upstream's. Headers that filters have set already are
	// removed. One stays: that by which a filter ends the connection of a client without
	// credentials.
	closes, ends := w.Header()["Connection"]
	if clear(w.Header()); ends {
		w.Header()["Connection"] = closes
	}
	var watch *passedOnWatch
	if isWatch(req.Context()) {
		defer ignoreHangUp(req.Context())
		var stop func()
		watch = &passedOnWatch{}
		req, stop = watch.beginWatch(req)
		defer stop()
	}
	proxy := httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: via, ErrorLog: slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(resp *http.Response) error {
			p.keepHere(resp.Header, req.Host)
			p.noticeRefusal(req, resp.StatusCode)
			if watch != nil && resp.StatusCode != http.StatusSwitchingProtocols { // that has a connection as its body
				resp.Body = watch.body(resp.Body)
			}
			return nil
		},
		ErrorHandler: p.handleError,
	}
	proxy.ServeHTTP(newFinalWriter(w, req), req)
}

// noticeRefusal calls TokenRefused if the upstream has refused a token. Programs that the
// upstream proxies to refuse for reasons of their own.
func (p *Proxy) noticeRefusal(req *http.Request, status int) {
	client, _ := request.UserFrom(req.Context())
	info, ok := request.RequestInfoFrom(req.Context())
	isProxied := ok && (info.Subresource == "proxy" || info.Verb == "proxy")
	if status != http.StatusUnauthorized || isProxied || p.cfg.TokenRefused == nil || IsStranger(client) || hasCertificate(client) {
		return
	}
	for _, header := range credentialsFrom(req.Context()).authorization {
		p.cfg.TokenRefused(header)
	}
}

// checkPath returns the error of a request whose target cannot be passed on as it came, or not
// for this user. A target that servers on the way may read as another path goes out with a
// user's own credentials only.
func checkPath(req *http.Request) error {
	if !strings.HasPrefix(req.URL.Path, "/") {
		return apierrors.NewBadRequest("the target of the request is no path: send one that begins with a slash")
	}
	if client, _ := request.UserFrom(req.Context()); hasCertificate(client) && leadsElsewhere(req.URL.Path) {
		return apierrors.NewBadRequest("the path has a part \".\" or \"..\", and this replica does not name the user of a client certificate for it: send the path without these, or use a bearer token")
	}
	return nil
}

// handleError answers a request that the upstream did not answer. The reason is for the log
// alone: it names addresses.
func (p *Proxy) handleError(w http.ResponseWriter, req *http.Request, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		panic(http.ErrAbortHandler) // the client went away
	case errors.Is(err, errStrangersWait):
		p.refuse(w, req, StrangersRefused, apierrors.NewTooManyRequests("many requests whose users the API server does not know wait for it: retry, with credentials that are valid", 1))
		return
	}
	p.cfg.Logger.Warn("The upstream did not answer a request that was passed on", "path", req.URL.Path, "err", err)
	RespondError(p.cfg.Serializer, w, req, apierrors.NewServiceUnavailable(
		"the API server of this replica does not answer: retry; what the replica holds can be read with resourceVersion=0 while it still knows the rights of the user"))
}

// refuse answers with an error of the replica's own, and counts it by its reason.
func (p *Proxy) refuse(w http.ResponseWriter, req *http.Request, reason string, err error) {
	p.cfg.Metrics.Refused.WithLabelValues(reason).Inc()
	RespondError(p.cfg.Serializer, w, req, err)
}

// keepHere changes a redirect to the upstream's address, so that it leads to the same path of
// the host that the client has asked. Programs that the upstream proxies to send such
// redirects, because the upstream hands its own host on to them.
func (p *Proxy) keepHere(header http.Header, host string) {
	location, err := url.Parse(header.Get("Location"))
	if err != nil || location.Host == "" || location.Host != p.door.host.Host {
		return
	}
	path, ok := strings.CutPrefix(location.EscapedPath(), strings.TrimSuffix(p.door.host.EscapedPath(), "/"))
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

// identify chooses how the user who sends the request is named to the upstream. It fails for a
// user of a certificate who cannot be named.
func (p *Proxy) identify(req *http.Request) (via http.RoundTripper, identity string, err error) {
	ctx := req.Context()
	kept := credentialsFrom(ctx)
	client, _ := request.UserFrom(ctx)
	unknown := IsStranger(client)
	switch {
	case unknown && len(kept.authorization) > 0:
		return p.door.strangers, tokenIdentity, nil
	case unknown:
		return p.door.strangers, anonymousIdentity, nil
	case !hasCertificate(client):
		return p.door.users.choose(req), tokenIdentity, nil
	case p.door.front.usual != nil && p.cfg.FrontProxy().Check() == nil:
		return transport.NewAuthProxyRoundTripper(client.GetName(), client.GetUID(), client.GetGroups(), client.GetExtra(), p.door.front.choose(req)), frontProxyIdentity, nil
	}
	// The replica's own Impersonate headers take the place in which the client's stand.
	if kept.impersonation == nil && p.cfg.MayImpersonate(ctx) {
		return transport.NewImpersonatingRoundTripper(impersonationOf(client), p.door.impersonating.choose(req)), impersonationIdentity, nil
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

// Labels of Metrics.Refused.
const (
	// CertificateRefused: the user of a client certificate cannot be named to the upstream.
	CertificateRefused = "certificate"
	// PathRefused: the path cannot be passed on, or not for the user of a client certificate.
	PathRefused = "path"
	// StrangersRefused: too many requests of unknown users wait for the upstream.
	StrangersRefused = "strangers"
)

// RespondError answers with an error in the form that the client asks for.
func RespondError(serializer runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, err error) {
	gv := schema.GroupVersion{Version: "v1"}
	if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest {
		gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	responsewriters.ErrorNegotiated(err, serializer, gv, w, req)
}
