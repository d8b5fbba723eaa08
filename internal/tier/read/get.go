package read

import (
	"net/http"
	"time"

	storeerrors "k8s.io/apiserver/pkg/storage/errors"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
)

// get answers a GET by name. If it answers nothing, it returns the reason to pass the request on.
func (q *query) get(w http.ResponseWriter, req *http.Request) passReason {
	ctx := q.account.waits.WithContext(req.Context())
	storeCtx, stale := q.staleness(ctx, q.resourceVersion)
	run, err := q.route.cfg.Objects.Find(storeCtx, q.route.key(q.namespace, q.name), q.resourceVersion)
	q.account.path, q.account.scanned = cache.PathKey, 1
	if reason := q.passReasonOf(err); reason != "" {
		return reason
	}
	markStale(w, stale)
	if err != nil {
		q.answerError(w, req, storeerrors.InterpretGetError(err, q.route.cfg.Resource.GroupResource(), q.name))
		return ""
	}
	if run.Entries[run.From].Opaque() {
		return passedOpaque
	}
	if err := q.convert(ctx, func(yield func(encode.EntryRun) bool) { yield(run) }); err != nil {
		if req.Context().Err() == nil {
			return passedConversion
		}
		q.answerError(w, req, storeerrors.InterpretGetError(err, q.route.cfg.Resource.GroupResource(), q.name))
		return ""
	}
	body, err := q.object(run)
	if err != nil {
		return q.passOnEncoding(err)
	}
	encoding := q.encoding
	if len(body) <= compressThreshold {
		encoding = encode.Identity
	}
	body = encode.Compress(body, encoding)
	q.account.objects, q.account.compressed = 1, encoding
	w, observed := q.observe(w, req, "GET")
	defer observed(0)
	q.writeHeaders(w, req, encoding)
	began := time.Now()
	_, _ = w.Write(body) // fails if the client went away
	q.account.waits.Add(began)
	return ""
}

// object encodes the answer to a GET. A table has one row.
func (q *query) object(run encode.EntryRun) ([]byte, error) {
	if !q.form.IsTable() {
		return q.form.Object(run)
	}
	list := &encode.List{
		Form: q.form, Meta: encode.Meta{ResourceVersion: run.Entries[run.From].Revision}, Now: time.Now(),
		Runs: func(yield func(encode.EntryRun) bool) { yield(run) },
	}
	var body bytesWriter
	err := list.Write(&body, encode.Identity)
	return body, err
}

// bytesWriter appends all that is written to it.
type bytesWriter []byte

func (b *bytesWriter) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// answerError answers with err as a Status, as Kubernetes' handlers would.
func (q *query) answerError(w http.ResponseWriter, req *http.Request, err error) {
	w, observed := q.observe(w, req, q.verb())
	defer observed(0)
	q.warn(req)
	cfg := &q.route.cfg
	writeError(err, cfg, &writeMeter{ResponseWriter: w, waits: &q.account.waits}, req)
}
