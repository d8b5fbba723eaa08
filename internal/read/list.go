package read

import (
	"net/http"

	"github.com/millrace/millrace/internal/encode"
)

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
