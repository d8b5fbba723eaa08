package document

import (
	"net"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// key is all of a request on which the document depends.
type key struct {
	target upstream.Target
	// accept is the header as it came. encoding has the codings that an upstream may use.
	accept, encoding string
	// pretty says that Kubernetes indents JSON for the user agent.
	pretty bool
	// address is the client's if the document depends on it, and otherwise "".
	address string
}

// Request is a request for a document.
type Request struct {
	key
	// etag names the document which the client has, or is "".
	etag string
	// user is the name of the client, whose share the request takes. It may be "".
	user string
}

// The bounds of what clients write into keys.
const (
	maxAccept   = 512
	maxEncoding = 128
)

// IsRequest reports whether a request is one for discovery or OpenAPI.
func IsRequest(req *http.Request) bool {
	return req.Method == http.MethodGet && upstream.IsDocument(req.URL.Path)
}

// isShared reports whether the upstream itself answers for a path, the same to each user.
// Other documents come from servers that the upstream proxies to: about their group versions,
// and whatever else they list below /openapi/v3.
func (d *Documents) isShared(path string) bool {
	if described, ok := strings.CutPrefix(path, "/openapi/v3/"); ok {
		gv, one := upstream.GroupVersionOf("/" + described)
		return one && gv.Version != "" && d.cfg.Local(gv)
	}
	gv, one := upstream.GroupVersionOf(path)
	return !one || gv.Version == "" || d.cfg.Local(gv)
}

// Parse reads a request for which IsRequest holds. It returns false if the answer may
// depend on more than a key.
func (d *Documents) Parse(req *http.Request) (r Request, ok bool) {
	if r.target, ok = upstream.TargetOf(req.URL); !ok || !d.isShared(r.target.Path()) {
		return r, false
	}
	header := req.Header
	for _, name := range []string{"Range", "If-Range", "If-Match", "If-Unmodified-Since", "Origin", "Upgrade"} {
		if len(header[name]) > 0 {
			return r, false
		}
	}
	// Kubernetes' router looks at the type of a body that a GET does not have.
	if kind := header["Content-Type"]; len(kind) > 0 && (len(kind) > 1 || kind[0] != "application/json") {
		return r, false
	}
	if r.accept, ok = single(header, "Accept"); !ok || len(r.accept) > maxAccept {
		return r, false
	}
	if r.encoding, ok = codings(header); !ok {
		return r, false
	}
	if r.etag, ok = conditionOf(header); !ok {
		return r, false
	}
	r.pretty = upstream.IsIndented(header.Get("User-Agent"))
	if user, known := request.UserFrom(req.Context()); known {
		r.user = user.GetName()
	}
	if r.target.Path() == "/api" && !strings.Contains(r.accept, "APIGroupDiscoveryList") {
		r.address, ok = addressOf(req)
	}
	return r, ok
}

// single returns the value of a header that has at most one line.
func single(header http.Header, name string) (string, bool) {
	if len(header[name]) > 1 {
		return "", false
	}
	return header.Get(name), true
}

// codings returns those codings of Accept-Encoding that an API server may use. It returns
// false for weights and for names in capitals, which servers read in different ways.
func codings(header http.Header) (string, bool) {
	line, ok := single(header, "Accept-Encoding")
	if !ok || len(line) > maxEncoding {
		return "", false
	}
	var known []string
	for name := range strings.SplitSeq(line, ",") {
		name = strings.TrimSpace(name)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
			return "", false
		}
		if name == "gzip" || name == "zstd" {
			known = append(known, name)
		}
	}
	return strings.Join(known, ", "), true
}

// conditionOf returns the ETag of a conditional request. It returns "" for another request.
// It returns false for conditions that servers read in different ways.
func conditionOf(header http.Header) (string, bool) {
	tag, ok := single(header, "If-None-Match")
	if !ok {
		return "", false
	}
	if tag == "" {
		return "", len(header["If-Modified-Since"]) == 0
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(tag, `"`), `"`)
	return tag, tag == `"`+inner+`"` && !strings.ContainsAny(inner, `",`)
}

// addressOf returns the address that the Proxy would name to the upstream. It returns false if
// proxies in front of the replica name other addresses.
func addressOf(req *http.Request) (string, bool) {
	if len(req.Header["X-Forwarded-For"]) > 0 || len(req.Header["X-Real-Ip"]) > 0 {
		return "", false
	}
	address, _, err := net.SplitHostPort(req.RemoteAddr)
	return address, err == nil
}
