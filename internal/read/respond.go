package read

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"
)

// gzipThreshold is the size above which Kubernetes compresses an answer.
const gzipThreshold = 128 << 10

// unconfirmed answers a consistent read whose revision etcd did not confirm in
// time.
func (q *query) unconfirmed(w http.ResponseWriter, req *http.Request, err error) {
	w, done := q.observe(w, req, q.verb())
	defer done()
	q.warn(req)
	cfg := &q.route.cfg
	responsewriters.ErrorNegotiated(cfg.ConsistentError(err), cfg.Serializer, cfg.Kind.GroupVersion(), w, req)
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
