package document

import (
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// key is all of a request on which the upstream's answer depends, besides time.
type key struct {
	// target is the path with the query, without the parameter timeout.
	target string
	// accept is the header as it came. encoding has the codings that an upstream may use.
	accept, encoding string
	// pretty says that Kubernetes indents JSON for the user agent.
	pretty bool
	// address is the client's if the document depends on it.
	address string
}

// Request is a request for a document.
type Request struct {
	key
	// etag is that of the document which the client has, or "".
	etag string
}

// The bounds of what clients write into keys.
const (
	maxTarget   = 512
	maxAccept   = 512
	maxEncoding = 128
)

// IsRequest reports whether a request is one for discovery or OpenAPI.
func IsRequest(req *http.Request) bool {
	if req.Method != http.MethodGet {
		return false
	}
	switch asked := req.URL.Path; {
	case asked == "/api" || asked == "/apis" || asked == "/version" || asked == "/openapi/v2" || asked == "/openapi/v3":
		return true
	case strings.HasPrefix(asked, "/openapi/v3/"):
		return true
	default:
		_, ok := groupOf(asked)
		return ok
	}
}

// groupOf returns the group, and the version unless there is none, whose document a path
// names.
func groupOf(document string) (schema.GroupVersion, bool) {
	parts := strings.Split(document, "/")[1:]
	switch {
	case len(parts) == 2 && parts[0] == "api" && parts[1] != "":
		return schema.GroupVersion{Version: parts[1]}, true
	case len(parts) == 2 && parts[0] == "apis" && parts[1] != "":
		return schema.GroupVersion{Group: parts[1]}, true
	case len(parts) == 3 && parts[0] == "apis" && parts[1] != "" && parts[2] != "":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	}
	return schema.GroupVersion{}, false
}

// Parse reads a request for which IsRequest holds. It returns false if the answer may
// depend on more than a key.
func (d *Documents) Parse(req *http.Request) (r Request, ok bool) {
	if gv, one := groupOf(req.URL.Path); one && gv.Version != "" && !d.cfg.Local(gv) {
		return r, false
	}
	if r.target, ok = targetOf(req.URL); !ok {
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
	r.pretty = isIndented(header.Get("User-Agent"))
	if r.target == "/api" && !strings.Contains(r.accept, "APIGroupDiscoveryList") {
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

// targetOf returns the path and the query. It returns false for parameters whose meaning
// for the document is not known. The parameter timeout, which client-go sends, has none.
// It returns false for a path that names another one when it is cleaned, too: the right to
// the document is asked for the path as it is, and rules match the beginnings of paths.
func targetOf(u *url.URL) (string, bool) {
	if u.EscapedPath() != u.Path || path.Clean(u.Path) != u.Path || len(u.Path)+len(u.RawQuery) > maxTarget {
		return "", false
	}
	if u.RawQuery == "" {
		return u.Path, true
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", false
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return "", false
		case name == "timeout":
			if limit, err := time.ParseDuration(values[0]); err != nil || limit <= 0 {
				return "", false
			}
			delete(query, name)
		case name != "hash" && name != "pretty":
			return "", false
		}
	}
	if len(query) == 0 {
		return u.Path, true
	}
	return u.Path + "?" + query.Encode(), true
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

// conditionOf returns the ETag of a conditional request, "" for another request. It returns
// false for conditions that servers read in different ways.
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

// indentedAgent begins a user agent for which Kubernetes indents JSON.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/negotiation.isPrettyPrint; compare at each upgrade.
const indentedAgent = "curl"

func isIndented(agent string) bool {
	return strings.HasPrefix(agent, indentedAgent) || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// addressOf returns the address that the Proxy would name to the upstream. It returns false
// if proxies in front name others.
func addressOf(req *http.Request) (string, bool) {
	if len(req.Header["X-Forwarded-For"]) > 0 || len(req.Header["X-Real-Ip"]) > 0 {
		return "", false
	}
	address, _, err := net.SplitHostPort(req.RemoteAddr)
	return address, err == nil
}
