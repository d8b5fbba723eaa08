package share

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// harmless are the headers that a shared read may have. The answer depends on none of them,
// except as the key says.
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
	text.WriteString(req.RequestURI)
	text.WriteByte(0)
	if upstream.IsIndented(req.UserAgent()) {
		text.WriteByte(1)
	}
	text.WriteByte(0)
	for _, name := range []string{"Accept", "Accept-Encoding"} {
		for _, value := range req.Header[name] {
			text.WriteString(value)
			text.WriteByte(1)
		}
		text.WriteByte(0)
	}
	return text.String(), true
}
