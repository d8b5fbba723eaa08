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

// warn adds the route's warnings to the answer.
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

// writeHeaders writes the headers of an answer with objects.
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
	// The client of a LIST must take deadlineBytes within stallTime, or it is cut off. Its
	// request holds a segment, a seat of its priority level and a stream.
	deadlineBytes = 256 << 10
	stallTime     = 20 * time.Second
	// deadlineRenewal is how old a deadline gets before it is extended. Each extension
	// costs a call to the connection.
	deadlineRenewal = 5 * time.Second
	// bytesBeforeDeadline is how much of an answer is written without a deadline.
	bytesBeforeDeadline = 1 << 20
)

// deadlineWriter writes an answer to a client that must keep up. It writes the headers with the
// first byte, so that a request whose encoder fails before that can still be passed on.
type deadlineWriter struct {
	query    *query
	w        http.ResponseWriter
	req      *http.Request
	encoding encode.Encoding
	// begun says that the headers were written.
	begun bool
	// broken says that a write failed: the client went away or was cut off.
	broken bool
	// written is the number of bytes of the answer so far.
	written int
	// deadline is the connection's. It is zero if none was set.
	deadline time.Time
}

// Write implements io.Writer.
func (d *deadlineWriter) Write(b []byte) (n int, err error) {
	if !d.begun {
		d.begun = true
		d.query.writeHeaders(d.w, d.req, d.encoding)
	}
	for len(b) > 0 && err == nil {
		d.extendDeadline()
		part := b[:min(len(b), deadlineBytes)]
		b = b[len(part):]
		var m int
		began := time.Now()
		m, err = d.w.Write(part)
		d.query.account.waits.Add(began)
		n += m
		d.written += m
	}
	if err != nil {
		d.broken = true
		if !d.deadline.IsZero() && !time.Now().Before(d.deadline) {
			d.query.metrics.stalled.Inc()
		}
	}
	return n, err
}

// extendDeadline sets the connection's deadline, unless it was set within the last
// deadlineRenewal, or fewer than bytesBeforeDeadline bytes are written. If the connection has no
// deadlines, only the request's timeout remains.
func (d *deadlineWriter) extendDeadline() {
	if d.written < bytesBeforeDeadline {
		return
	}
	now := time.Now()
	if d.deadline.Sub(now) > stallTime-deadlineRenewal {
		return
	}
	d.deadline = now.Add(stallTime)
	_ = http.NewResponseController(d.w).SetWriteDeadline(d.deadline)
}

// end removes the deadline from the connection, which other requests may use.
func (d *deadlineWriter) end() {
	if !d.deadline.IsZero() {
		_ = http.NewResponseController(d.w).SetWriteDeadline(time.Time{})
	}
}
