package replica

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// finalWriter drops the interim answers of an upstream: status 100 to 199 but for 101, which
// ends the exchange of HTTP. Kubernetes' timeout filter takes the first status that it is
// given for the answer's, and would send 200 for the real one.
type finalWriter struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w finalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w finalWriter) WriteHeader(status int) {
	if !isInterim(status) {
		w.ResponseWriter.WriteHeader(status)
	}
}

// programWriter drops 100 alone. The server that the client talks to sends that one itself
// when a body is read.
type programWriter struct{ finalWriter }

// WriteHeader implements http.ResponseWriter.
func (w programWriter) WriteHeader(status int) {
	if status != http.StatusContinue {
		w.ResponseWriter.WriteHeader(status)
	}
}

func isInterim(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}

// interimWriter returns the writer for an answer of the upstream. Programs behind it, such as
// pods, may send interim answers, and no filter stands in their way. An API server has none
// to send but 100.
func interimWriter(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
	if info, ok := request.RequestInfoFrom(req.Context()); ok && (info.Subresource == "proxy" || info.Verb == "proxy") {
		return programWriter{finalWriter{w}}
	}
	return finalWriter{w}
}
