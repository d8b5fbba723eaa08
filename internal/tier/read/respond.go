package read

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/internal/wire/encode"
)

// compressThreshold is the size above which Kubernetes compresses an answer.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.defaultGzipThresholdBytes; compare at each upgrade.
const compressThreshold = 128 << 10

// verb returns the request's verb in metrics.
func (q *query) verb() string {
	switch {
	case q.isWatch:
		return "WATCH"
	case q.name != "":
		return "GET"
	}
	return "LIST"
}

// warn adds the warning of a deprecated version to the answer.
func (q *query) warn(req *http.Request) {
	for _, text := range q.route.warnings() {
		warning.AddWarning(req.Context(), "", text)
	}
}

// writeError answers with an error in the form that the client accepts.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.err; compare at each upgrade.
func writeError(err error, cfg *RouteConfig, w http.ResponseWriter, req *http.Request) {
	responsewriters.ErrorNegotiated(err, cfg.Serializer, cfg.Kind.GroupVersion(), w, req)
}

// writeHeaders writes the headers of an answer.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.SerializeObject; compare at each upgrade.
func (q *query) writeHeaders(w http.ResponseWriter, req *http.Request, encoding encode.Encoding) {
	q.warn(req)
	header := w.Header()
	if encoding != encode.Identity {
		header.Set("Content-Encoding", string(encoding))
		header.Add("Vary", "Accept-Encoding")
	}
	header.Set("Content-Type", q.form.MediaType())
	w.WriteHeader(http.StatusOK)
}

const (
	// A client must take paceBytes within stallTime, or it is cut off. Its request holds a
	// segment, a seat of its priority level and a stream.
	paceBytes = 256 << 10
	stallTime = 20 * time.Second
	// deadlineRenewal is how old a deadline gets before it is extended. Each extension
	// costs a call to the connection.
	deadlineRenewal = 5 * time.Second
	// minPacedBytes is how much of an answer is written without a deadline.
	minPacedBytes = 1 << 20
)

// pacedWriter writes an answer to a client that must keep up. It writes the headers with the
// first byte, so that a request whose encoder fails before that can still be passed on.
type pacedWriter struct {
	query    *query
	w        http.ResponseWriter
	req      *http.Request
	encoding encode.Encoding
	begun    bool
	// broken says that a write failed: the client went away or was cut off.
	broken   bool
	written  int
	deadline time.Time
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (n int, err error) {
	if !p.begun {
		p.begun = true
		p.query.writeHeaders(p.w, p.req, p.encoding)
	}
	for len(b) > 0 && err == nil {
		p.extendDeadline()
		part := b[:min(len(b), paceBytes)]
		b = b[len(part):]
		var m int
		began := time.Now()
		m, err = p.w.Write(part)
		p.query.account.waits.Add(began)
		n += m
		p.written += m
	}
	if err != nil {
		p.broken = true
		if !p.deadline.IsZero() && !time.Now().Before(p.deadline) {
			p.query.metrics.stalled.Inc()
		}
	}
	return n, err
}

// extendDeadline sets the connection's deadline, unless it was set a moment ago. If the
// connection has no deadlines, only the request's timeout remains.
func (p *pacedWriter) extendDeadline() {
	if p.written < minPacedBytes {
		return
	}
	now := time.Now()
	if p.deadline.Sub(now) > stallTime-deadlineRenewal {
		return
	}
	p.deadline = now.Add(stallTime)
	_ = http.NewResponseController(p.w).SetWriteDeadline(p.deadline)
}

// end removes the deadline from the connection, which other requests may use.
func (p *pacedWriter) end() {
	if !p.deadline.IsZero() {
		_ = http.NewResponseController(p.w).SetWriteDeadline(time.Time{})
	}
}
