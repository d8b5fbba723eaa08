package read

import (
	"net/http"

	"github.com/millrace/millrace/internal/encode"
)

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
