package read

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/internal/encode"
)

// compressThreshold is the size above which Kubernetes compresses an answer.
const compressThreshold = 128 << 10

func (q *query) verb() string {
	switch {
	case q.isWatch:
		return "WATCH"
	case q.name != "":
		return "GET"
	}
	return "LIST"
}

// warn tells the client that the version is deprecated.
func (q *query) warn(req *http.Request) {
	if q.route.cfg.Warning != "" {
		warning.AddWarning(req.Context(), "", q.route.cfg.Warning)
	}
}

func writeError(err error, cfg *RouteConfig, w http.ResponseWriter, req *http.Request) {
	responsewriters.ErrorNegotiated(err, cfg.Serializer, cfg.Kind.GroupVersion(), w, req)
}

// writeHeaders writes the headers of an answer.
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
	// A client must take a pace of bytes within stallTime, or it is cut off: its
	// request holds a segment, a place in its priority level and a stream.
	paceBytes = 256 << 10
	stallTime = 20 * time.Second
	// deadlineRenewal is how old a deadline gets before it is moved on.
	deadlineRenewal = 5 * time.Second
	// minPacedBytes answers are not worth a deadline.
	minPacedBytes = 1 << 20
)

// pacedWriter writes an answer to a client that has to keep up. It writes the headers
// with the first byte, so that what fails before can still be answered otherwise.
type pacedWriter struct {
	query    *query
	w        http.ResponseWriter
	req      *http.Request
	encoding encode.Encoding
	begun    bool
	// broken says that the client went away or was cut off.
	broken   bool
	written  int
	deadline time.Time
}

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
		p.query.account.addIdle(began)
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

// extendDeadline moves the deadline on. Connections without deadlines are left to the
// request's timeout.
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

// end takes the deadline off the connection, which other requests may use.
func (p *pacedWriter) end() {
	if !p.deadline.IsZero() {
		_ = http.NewResponseController(p.w).SetWriteDeadline(time.Time{})
	}
}
