package upstream

import (
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// forwardingHeaders are set by proxies in front of this replica. API servers hand them on to
// programs that they proxy to. httputil.ReverseProxy drops them.
var forwardingHeaders = []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request for the upstream. It differs from the client's in the host and in
// headers: about the connection, the user, the addresses on the way, and the audit id.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	pr.SetURL(p.door.host)
	p.keepTarget(pr.Out.URL, pr.In)
	header := pr.Out.Header
	for _, name := range forwardingHeaders {
		if values := endToEnd(pr.In.Header, name); values != nil {
			header[name] = values
		}
	}
	trusted := p.cfg.FrontProxy()
	maps.DeleteFunc(header, func(name string, _ []string) bool { return trusted.Has(name) })
	ctx := pr.In.Context()
	kept := credentialsFrom(ctx)
	if client, _ := request.UserFrom(ctx); !hasCertificate(client) && len(kept.authorization) > 0 {
		header[authorizationHeader] = kept.authorization
	}
	maps.Copy(header, kept.impersonation)
	// One request has the same id in the audit logs of the replica and the upstream. A program
	// that the upstream proxies to is sent no id but the one that its client has sent.
	if id, ok := audit.AuditIDFrom(ctx); ok && !isHandedOn(pr.In) {
		header.Set("Audit-ID", string(id))
	}
	// The upstream's audit log names the addresses on the way.
	if address, _, err := net.SplitHostPort(pr.In.RemoteAddr); err == nil {
		forwarded := append(endToEnd(pr.In.Header, "X-Forwarded-For"), address)
		header["X-Forwarded-For"] = []string{strings.Join(forwarded, ", ")}
	}
}

// endToEnd returns a copy of the values of a header. It returns nil if the client says that
// they are for its connection alone.
func endToEnd(header http.Header, name string) []string {
	if httpguts.HeaderValuesContainsToken(header["Connection"], name) {
		return nil
	}
	return append([]string(nil), header[name]...)
}

// isHandedOn reports whether the upstream proxies a request to another program, with the
// request's headers.
func isHandedOn(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest {
		return false
	}
	switch info.Subresource {
	case "attach", "exec", "portforward", "proxy":
		return true
	}
	return info.Verb == "proxy"
}

// keepTarget gives a URL the path and the query of a request as they came. Go writes some
// characters of a path in another way than they came.
func (p *Proxy) keepTarget(out *url.URL, in *http.Request) {
	out.Opaque, out.RawQuery = "", spaces.Replace(in.URL.RawQuery)
	came, _, _ := strings.Cut(in.RequestURI, "?")
	if !strings.HasPrefix(came, "/") || !isVisible(came) {
		return // the absolute form of HTTP/1.1, or what only HTTP/2 can say
	}
	if read, err := url.PathUnescape(came); err != nil || read != in.URL.Path {
		return // rights were asked for another path
	}
	path := strings.TrimSuffix(p.door.host.EscapedPath(), "/") + came
	if out.EscapedPath() == path {
		return
	}
	out.Opaque = path
	if strings.HasPrefix(path, "//") {
		out.Opaque = "//" + p.door.host.Host + path // the absolute form
	}
}

// spaces replaces what would end the target of a request over HTTP/1.1.
var spaces = strings.NewReplacer(" ", "%20")

func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}
