package discovery

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// cachedDocument is a document that is the same for all clients, with Kubernetes' handler
// that writes it. The handler writes each form once; its answer is recorded.
type cachedDocument struct {
	representations
	serializer runtime.NegotiatedSerializer
	handler    http.Handler
}

// ServeHTTP implements http.Handler.
func (d *cachedDocument) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n, err := negotiate(req, d.serializer, negotiation.DefaultEndpointRestrictions)
	if err != nil || audited(req) {
		d.handler.ServeHTTP(w, req)
		return
	}
	d.serveRecorded(n.form, d.handler, w, req)
}

// serveRecorded answers in a form with a recorded answer of the handler. If the handler
// does not succeed, nothing is recorded, and it answers the request itself.
func (r *representations) serveRecorded(f form, handler http.Handler, w http.ResponseWriter, req *http.Request) {
	recorded, err := r.get(f, func() (*representation, error) { return record(f, handler, req) })
	if err != nil {
		handler.ServeHTTP(w, req)
		return
	}
	recorded.serve(w, req)
}

// maxRecordings is how often record asks for equal answers.
const maxRecordings = 5

// record returns the answer of a handler in a form. It asks for all clients: the request's
// deadline, its query and its headers other than Accept are left out. It returns an error
// if the handler does not succeed.
//
// The handler of a group encodes one object for all requests, and an encoder sets the kind of
// its object and takes it away again. So an answer that is written beside another one may lack
// its kind. What is recorded was given twice.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery.APIGroupHandler.ServeHTTP; compare at each upgrade.
func record(f form, handler http.Handler, req *http.Request) (*representation, error) {
	asked := req.Clone(context.WithoutCancel(req.Context()))
	asked.Header = http.Header{"Accept": {f.accept()}}
	asked.URL.RawQuery = ""
	var before []byte
	for range maxRecordings {
		answer := responsewriter.NewInMemoryResponseWriter()
		handler.ServeHTTP(answer, asked)
		if answer.RespCode() != http.StatusOK {
			return nil, fmt.Errorf("record %s: status %d", req.URL.Path, answer.RespCode())
		}
		if before != nil && bytes.Equal(before, answer.Data()) {
			return newRepresentation(answer.Header(), answer.Data()), nil
		}
		before = answer.Data()
	}
	return nil, fmt.Errorf("record %s: no two answers are equal", req.URL.Path)
}
