package read

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/internal/encode"
)

// gzipThreshold is the size above which Kubernetes compresses an answer.
const gzipThreshold = 128 << 10

// wait makes the cache fresh enough. It answers the request itself when etcd
// does not confirm the current revision in time.
func (q *query) wait(w http.ResponseWriter, req *http.Request) passed {
	reason, err := q.freshness(req.Context())
	if err == nil {
		return reason
	}
	w, done := q.observe(w, req, q.verb())
	defer done()
	q.warn(req)
	cfg := &q.route.cfg
	responsewriters.ErrorNegotiated(cfg.ConsistentError(err), cfg.Serializer, cfg.Kind.GroupVersion(), w, req)
	return answered
}

func (q *query) verb() string {
	if q.name != "" {
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

// begin writes the headers of an answer.
func (q *query) begin(w http.ResponseWriter, req *http.Request, gzip bool) {
	q.warn(req)
	header := w.Header()
	if gzip {
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
	}
	header.Set("Content-Type", q.form.MediaType())
	w.WriteHeader(http.StatusOK)
}

// get answers a GET by name.
func (q *query) get(w http.ResponseWriter, req *http.Request) passed {
	key := q.name
	if q.namespace != "" {
		key = q.namespace + "/" + q.name
	}
	e := q.route.cfg.Source.Snapshot().Get(key)
	if e == nil {
		return passedNotFound
	}
	if !e.Plain() {
		return passedOdd
	}
	body, err := q.form.Object(e)
	if err != nil {
		return passedEncoding
	}
	gzip := q.gzip && len(body) > gzipThreshold
	if gzip {
		if body, err = encode.Gzip(body); err != nil {
			return passedEncoding
		}
	}
	w, done := q.observe(w, req, "GET")
	defer done()
	q.begin(w, req, gzip)
	// An error means that the client went away.
	_, _ = w.Write(body)
	return ""
}

// list answers a LIST of everything in a scope.
func (q *query) list(w http.ResponseWriter, req *http.Request) passed {
	prefix := ""
	if q.namespace != "" {
		prefix = q.namespace + "/"
	}
	snapshot := q.route.cfg.Source.Snapshot()
	if snapshot.Odd > 0 {
		return passedOdd
	}
	list := &encode.List{
		Form:            q.form,
		ResourceVersion: snapshot.Revision,
		Spans:           snapshot.Spans(prefix),
		Empty:           snapshot.Count(prefix) == 0,
	}
	gzip := false
	if q.gzip {
		var err error
		if gzip, err = list.LongerThan(gzipThreshold); err != nil {
			return passedEncoding
		}
	}
	write := list.Write
	if gzip {
		write = list.WriteGzip
	}
	w, done := q.observe(w, req, "LIST")
	defer done()
	out := &lateWriter{query: q, w: w, req: req, gzip: gzip}
	if err := write(out); err != nil {
		if !out.begun {
			return passedEncoding
		}
		if out.broken {
			return ""
		}
		// The answer is cut short: the client must not take it for whole.
		panic(http.ErrAbortHandler)
	}
	return ""
}

// lateWriter writes the headers with the first byte, so that what fails before
// can still be answered otherwise.
type lateWriter struct {
	query *query
	w     http.ResponseWriter
	req   *http.Request
	gzip  bool
	begun bool
	// broken says that the client went away.
	broken bool
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.query.begin(l.w, l.req, l.gzip)
	}
	n, err := l.w.Write(p)
	l.broken = l.broken || err != nil
	return n, err
}
