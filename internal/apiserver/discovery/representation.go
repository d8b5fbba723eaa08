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

	"github.com/millrace/millrace/internal/wire/encode"
)

const (
	// compressThreshold is the size in bytes above which Kubernetes compresses an answer.
	compressThreshold = 128 << 10
	// gzipLevel is higher than Kubernetes' level 1, because a representation is compressed once
	// for all its readers.
	gzipLevel = 5
)

// representation is a document in one form, with the headers that it is sent with. It is
// immutable, and readers share it.
type representation struct {
	header http.Header
	body   []byte
	// gzipped returns the compressed body. The first call makes it.
	gzipped func() []byte
}

func newRepresentation(header http.Header, body []byte) *representation {
	return &representation{header: header, body: body, gzipped: sync.OnceValue(func() []byte { return gzipBytes(body) })}
}

func gzipBytes(body []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzipLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	// Writes to a buffer do not fail.
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes()
}

// serve writes the representation, or says that the client has it already.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.SerializeObject; compare at each upgrade.
func (r *representation) serve(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	if etag := r.header.Get("ETag"); etag != "" && unmodified(header, etag, req) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	maps.Copy(header, r.header.Clone())
	body := r.body
	if len(body) > compressThreshold && acceptsGzip(req) {
		body = r.gzipped()
		header.Set("Content-Encoding", "gzip")
		header.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(http.StatusOK)
	request.TrackSerializeResponseObjectLatency(req.Context(), func() { _, _ = w.Write(body) })
}

// unmodified sets the headers of a document with an ETag, and reports whether the client
// has the document with that ETag. Like Kubernetes it does not read lists of ETags.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.ServeHTTPWithETag; compare at each upgrade.
func unmodified(header http.Header, etag string, req *http.Request) bool {
	header.Set("ETag", etag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	return req.Header.Get("If-None-Match") == etag
}

// acceptsGzip reports whether the client accepts gzip and the server may use it.
func acceptsGzip(req *http.Request) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.APIResponseCompression) && encode.Negotiate(req.Header, encode.Gzip) == encode.Gzip
}

// audited reports whether the audit policy logs the body of the response. Kubernetes'
// handlers answer such requests, because the log needs the object.
func audited(req *http.Request) bool {
	a := audit.AuditContextFrom(req.Context())
	return a != nil && a.GetEventLevel().GreaterOrEqual(auditinternal.LevelRequestResponse)
}

// representations are the forms of one document that were asked for so far. The document
// must not change. The zero value is ready.
type representations struct {
	mu struct {
		sync.Mutex
		byForm map[form]*representation
	}
}

// get returns the representation in a form. If there is none, build makes it. Callers that
// ask for any form meanwhile wait for the lock, since encoding two forms at a time would take
// the memory of two. After an error or a panic of build, the next caller builds again.
// singleflight would only add a second map.
func (r *representations) get(f form, build func() (*representation, error)) (*representation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.mu.byForm[f]; found != nil {
		return found, nil
	}
	made, err := build()
	if err != nil {
		return nil, err
	}
	if r.mu.byForm == nil {
		r.mu.byForm = map[form]*representation{}
	}
	r.mu.byForm[f] = made
	return made, nil
}

// has reports whether there is a representation in a form.
func (r *representations) has(f form) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.byForm[f] != nil
}
