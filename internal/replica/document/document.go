package document

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// document is an answer of the upstream to a request for discovery or OpenAPI. It is
// immutable, and its readers share it.
type document struct {
	// status is 200, or 301 for a hash that is not the newest.
	status int
	header http.Header
	body   []byte
	// etag is "" if the upstream gives none.
	etag string
	// notModified are the headers of the upstream's answer 304 to a client that has the
	// document. They are nil until the upstream has answered so.
	notModified http.Header
	// unconditional says that the upstream sends the document also to a client that has it.
	unconditional bool
}

// isVolatile reports whether a response header belongs to one answer, and not to the
// document in it.
func isVolatile(name string) bool {
	switch name {
	case "Audit-Id", "Date", "Content-Length", "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade",
		"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid":
		return true
	}
	return false
}

// stable returns the headers of an answer that belong to its document.
func stable(header http.Header) http.Header {
	kept := maps.Clone(header)
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return isVolatile(name) })
	return kept
}

// newDocument makes a document of an answer, without the body. It returns nil if the status is
// neither 200 nor 301, or the answer may differ for the next client.
func newDocument(answer *http.Response) *document {
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusMovedPermanently {
		return nil
	}
	header := answer.Header
	if len(header["Set-Cookie"]) > 0 || strings.Contains(header.Get("Cache-Control"), "no-store") || !variesByKey(header) {
		return nil
	}
	return &document{status: answer.StatusCode, header: stable(header), etag: header.Get("Etag")}
}

// variesByKey reports whether an answer depends on no other header than the headers of a
// key.
func variesByKey(header http.Header) bool {
	for _, line := range header["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); !strings.EqualFold(name, "Accept") && !strings.EqualFold(name, "Accept-Encoding") {
				return false
			}
		}
	}
	return true
}

// confirmed returns the document with the headers of the answer 304 by which the upstream
// has confirmed it.
func (doc *document) confirmed(answer http.Header) *document {
	newer := *doc
	newer.notModified = stable(answer)
	newer.header = maps.Clone(doc.header)
	for name, values := range newer.notModified {
		if !strings.HasPrefix(name, "Content-") {
			newer.header[name] = values
		}
	}
	return &newer
}

// matches reports whether a client that names an ETag has the document.
func (doc *document) matches(etag string) bool {
	return doc.status == http.StatusOK && doc.etag != "" && doc.etag == etag
}

// serve writes the document, or says that the client has it, and returns the status. The
// headers of the answer are the upstream's. Headers that filters have set already are removed,
// except Audit-Id.
func (doc *document) serve(w http.ResponseWriter, notModified bool) int {
	header, from, status := w.Header(), doc.header, doc.status
	if notModified {
		from, status = doc.notModified, http.StatusNotModified
	}
	id := header["Audit-Id"]
	clear(header)
	for name, values := range from {
		header[name] = slices.Clone(values) // filters may add to them
	}
	if id != nil {
		header["Audit-Id"] = id
	}
	if notModified {
		w.WriteHeader(status)
		return status
	}
	header.Set("Content-Length", strconv.Itoa(len(doc.body)))
	w.WriteHeader(status)
	_, _ = w.Write(doc.body) // the client may be gone
	return status
}

// documentOverhead is about how many bytes an entry takes besides its document's body and its
// key.
const documentOverhead = 2 << 10

// size returns the bytes of the body. A nil document has none.
func (doc *document) size() int64 {
	if doc == nil {
		return 0
	}
	return int64(len(doc.body))
}
