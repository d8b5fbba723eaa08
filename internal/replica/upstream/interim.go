package upstream

import (
	"bufio"
	"net"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// finalWriter drops interim answers of an upstream (status 100 to 199, except 101, which ends
// the exchange of HTTP). Kubernetes' timeout filter takes the first status that it is given for
// the answer's, and would send 200 for the real one.
type finalWriter struct {
	http.ResponseWriter
	// passesInterim is set for requests to programs that the upstream proxies to, which that
	// filter leaves alone. 100 is still dropped, because the server that the client talks to
	// sends it when a body is read.
	passesInterim bool
	// upgraded says that the head of an answer 101 is about to be written.
	upgraded bool
}

// newFinalWriter returns the writer for an answer of the upstream. Programs that it proxies to,
// such as pods, may send interim answers, and no filter stands in their way. An API server has
// none to send but 100.
func newFinalWriter(w http.ResponseWriter, req *http.Request) *finalWriter {
	info, ok := request.RequestInfoFrom(req.Context())
	return &finalWriter{ResponseWriter: w, passesInterim: ok && (info.Subresource == "proxy" || info.Verb == "proxy")}
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *finalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *finalWriter) WriteHeader(status int) {
	isInterim := status < http.StatusOK && status != http.StatusSwitchingProtocols
	if status != http.StatusContinue && (!isInterim || w.passesInterim) {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Hijack implements http.Hijacker.
func (w *finalWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.upgraded = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Header implements http.ResponseWriter. After Hijack it spells the headers of WebSockets as
// the standard does, because clients may look for that. The program that the upstream proxies
// to writes them so, and an API server hands them on unchanged. httputil.ReverseProxy takes
// the headers from here after it has added all.
func (w *finalWriter) Header() http.Header {
	header := w.ResponseWriter.Header()
	if !w.upgraded {
		return header
	}
	for name, values := range header {
		if rest, ok := strings.CutPrefix(name, "Sec-Websocket-"); ok {
			delete(header, name)
			header["Sec-WebSocket-"+rest] = values
		}
	}
	return header
}
