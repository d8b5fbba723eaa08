package discovery

import (
	"bytes"
	"maps"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/millrace/millrace/internal/encode"
)

const (
	// compressThreshold is the size above which Kubernetes compresses an answer.
	compressThreshold = 128 << 10
	// gzipLevel is that of lists: a page is compressed once for all readers.
	gzipLevel = 5
)

// representation is a document in one form, as it is sent. It is immutable.
type representation struct {
	header  http.Header
	body    []byte
	gzipped func() []byte
}

func newRepresentation(header http.Header, plain []byte) *representation {
	return &representation{header: header, body: plain, gzipped: sync.OnceValue(func() []byte { return gzipBytes(plain) })}
}

func gzipBytes(plain []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzipLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	// A buffer takes all.
	_, _ = w.Write(plain)
	_ = w.Close()
	return out.Bytes()
}

// serve writes the page, or that the client has it already.
func (p *representation) serve(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	if etag := p.header.Get("ETag"); etag != "" && unmodified(header, etag, req) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	maps.Copy(header, p.header.Clone())
	body := p.body
	if len(body) > compressThreshold && acceptsGzip(req) {
		body = p.gzipped()
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(http.StatusOK)
	request.TrackSerializeResponseObjectLatency(req.Context(), func() { _, _ = w.Write(body) })
}

// unmodified sets the headers of a document with an ETag, and reports whether
// the client has just that. Kubernetes looks for nothing but the one value.
func unmodified(header http.Header, etag string, req *http.Request) bool {
	header.Set("ETag", etag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	return req.Header.Get("If-None-Match") == etag
}

// acceptsGzip reports whether the client wants gzip, and the server has it.
func acceptsGzip(req *http.Request) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.APIResponseCompression) && encode.Negotiate(req.Header, encode.Gzip) == encode.Gzip
}

// audited reports whether the audit policy logs response bodies, for which
// Kubernetes needs the object.
func audited(req *http.Request) bool {
	a := audit.AuditContextFrom(req.Context())
	return a != nil && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequestResponse)
}
