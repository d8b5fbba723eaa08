package discovery

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// document is the aggregated document as of one change. It is immutable except for its
// representations, which are made when clients first ask for them.
type document struct {
	items []*item
	// etag is the ETag without quotes. quoted is the ETag as it is sent.
	etag, quoted string
	representations
}

// newDocument makes the document of some items, which must be in order.
func newDocument(items []*item) *document {
	d := &document{items: items, etag: etag(items)}
	d.quoted = strconv.Quote(d.etag)
	return d
}

// etag returns the ETag that Kubernetes computes: the SHA-512 of the list in JSON, without
// apiVersion and kind.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.calculateETag; compare at each upgrade.
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

// list returns the document as an object. It shares its items with the document.
func (d *document) list() *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: make([]apidiscoveryv2.APIGroupDiscovery, len(d.items))}
	for i, item := range d.items {
		list.Items[i] = item.APIGroupDiscovery
	}
	return list
}

func (d *document) encodedItems() []encodedItem {
	all := make([]encodedItem, len(d.items))
	for i, item := range d.items {
		all[i] = item.encodedItem
	}
	return all
}

// representation returns the document in a form.
func (d *document) representation(n negotiatedForm, envelope *listEnvelope, s runtime.NegotiatedSerializer) (*representation, error) {
	return d.get(n.form, func() (*representation, error) {
		body, err := d.encode(n, envelope, s)
		if err != nil {
			return nil, err
		}
		return newRepresentation(http.Header{
			"Content-Type": {n.contentType()}, "Etag": {d.quoted}, "Vary": {"Accept"}, "Cache-Control": {"public"},
		}, body), nil
	})
}

// encode joins the encoded items in the forms that envelope.join knows. Kubernetes'
// encoders write all other forms, which clients rarely ask for.
func (d *document) encode(n negotiatedForm, envelope *listEnvelope, s runtime.NegotiatedSerializer) ([]byte, error) {
	if n.as == envelope.kind {
		if body, err := envelope.join(n.form, d.encodedItems()); body != nil || err != nil {
			return body, err
		}
	}
	var out bytes.Buffer
	if err := s.EncoderForVersion(n.serializer, n.as.GroupVersion()).Encode(d.list(), &out); err != nil {
		return nil, fmt.Errorf("encode discovery as %s: %w", n.contentType(), err)
	}
	return out.Bytes(), nil
}

// serve answers a request for the document, which source has made. It uses Kubernetes'
// handler if the body is to be logged or cannot be encoded here.
func (d *document) serve(n negotiatedForm, source *Documents, w http.ResponseWriter, req *http.Request) {
	if unmodified(w.Header(), d.quoted, req) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !audited(req) {
		if r, err := d.representation(n, &source.envelope, source.serializer); err == nil {
			r.serve(w, req)
			return
		}
	}
	aggregated.ServeHTTPWithETag(d.list(), d.etag, n.as.GroupVersion(), source.serializer, w, req)
}
