package discovery

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// document is the aggregated document at a moment. It is immutable but for the
// forms that were asked for.
type document struct {
	items []*item
	// etag is unquoted, quoted as it is sent.
	etag, quoted string

	mu struct {
		sync.Mutex
		forms map[form]*representation
	}
}

// newDocument puts the items, which are in order, together.
func newDocument(items []*item) *document {
	d := &document{items: items, etag: etag(items)}
	d.quoted = strconv.Quote(d.etag)
	d.mu.forms = map[form]*representation{}
	return d
}

// etag is Kubernetes': the SHA-512 of the list in JSON, of no kind.
func etag(items []*item) string {
	sum := sha512.New()
	sum.Write([]byte(`{"metadata":{},"items":[`))
	for i, item := range items {
		if i > 0 {
			sum.Write([]byte{','})
		}
		sum.Write(item.json)
	}
	sum.Write([]byte(`]}`))
	return strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
}

// list is the document as an object. Its items are shared.
func (d *document) list() *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: make([]apidiscoveryv2.APIGroupDiscovery, len(d.items))}
	for i, item := range d.items {
		list.Items[i] = item.APIGroupDiscovery
	}
	return list
}

func (d *document) fragments() []fragment {
	all := make([]fragment, len(d.items))
	for i, item := range d.items {
		all[i] = item.fragment
	}
	return all
}

// representation returns the document in a form, made now if it is the first time.
func (d *document) representation(n negotiatedForm, frame *frame, s runtime.NegotiatedSerializer) (*representation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if made := d.mu.forms[n.form]; made != nil {
		return made, nil
	}
	body, err := d.encode(n, frame, s)
	if err != nil {
		return nil, err
	}
	made := newRepresentation(http.Header{
		"Content-Type": {n.contentType()}, "Etag": {d.quoted}, "Vary": {"Accept"}, "Cache-Control": {"public"},
	}, body)
	d.mu.forms[n.form] = made
	return made, nil
}

// encode joins the fragments of the usual forms. Others are rare.
func (d *document) encode(n negotiatedForm, frame *frame, s runtime.NegotiatedSerializer) ([]byte, error) {
	if n.as == frame.kind {
		if body, err := frame.join(n.form, d.fragments()); body != nil || err != nil {
			return body, err
		}
	}
	var out bytes.Buffer
	if err := s.EncoderForVersion(n.serializer, n.as.GroupVersion()).Encode(d.list(), &out); err != nil {
		return nil, fmt.Errorf("encode discovery as %s: %w", n.contentType(), err)
	}
	return out.Bytes(), nil
}

// serve answers, by Kubernetes' own means if the answer is to be logged or
// something cannot be encoded.
func (d *document) serve(n negotiatedForm, m *Documents, w http.ResponseWriter, req *http.Request) {
	if unmodified(w.Header(), d.quoted, req) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !audited(req) {
		if p, err := d.representation(n, &m.frame, m.serializer); err == nil {
			p.serve(w, req)
			return
		}
	}
	aggregated.ServeHTTPWithETag(d.list(), d.etag, n.as.GroupVersion(), m.serializer, w, req)
}
