package share

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// harmless are the headers that do not change the answer to a read, besides those in its key.
var harmless = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "User-Agent": true, "Authorization": true, "Audit-Id": true, "Connection": true,
	"Content-Length": true, "Content-Type": true, "Forwarded": true, "Traceparent": true, "Tracestate": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
}

// keyOf returns what the answer to a read depends on. It returns false for a request that is not
// to be shared.
func keyOf(req *http.Request) (key string, ok bool) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || req.Method != http.MethodGet || !info.IsResourceRequest || info.Subresource != "" || info.Verb != "get" && info.Verb != "list" {
		return "", false
	}
	if req.ContentLength != 0 {
		return "", false
	}
	for name := range req.Header {
		if !harmless[name] {
			return "", false
		}
	}
	var text strings.Builder
	for _, part := range []string{req.RequestURI, indentation(req.UserAgent())} {
		text.WriteString(part)
		text.WriteByte(0)
	}
	for _, name := range []string{"Accept", "Accept-Encoding"} {
		for _, value := range req.Header[name] {
			text.WriteString(value)
			text.WriteByte(1)
		}
		text.WriteByte(0)
	}
	return text.String(), true
}

// indentation tells apart the clients for whom Kubernetes indents JSON, as those that a person
// reads with.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/negotiation.isPrettyPrint; compare at each upgrade.
func indentation(agent string) string {
	for _, prefix := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(agent, prefix) {
			return "indented"
		}
	}
	return ""
}
