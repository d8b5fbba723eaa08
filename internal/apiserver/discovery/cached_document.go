package discovery

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// cachedDocument is a document that is the same for all clients, with the handler that
// writes it. The handler's first successful answer in each form is recorded and sent again.
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
// does not succeed, nothing is recorded, and the handler answers the request itself.
func (r *representations) serveRecorded(f form, handler http.Handler, w http.ResponseWriter, req *http.Request) {
	recorded, err := r.get(f, func() (*representation, error) { return record(f, handler, req) })
	if err != nil {
		handler.ServeHTTP(w, req)
		return
	}
	recorded.serve(w, req)
}

// record returns the answer of a handler in a form. The answer is for all clients: the
// request's deadline, its query and its headers are left out. record returns an error if the
// handler does not succeed.
//
// Kubernetes' handler of a group encodes one object for all requests. An encoder sets the kind
// of its object and takes it away again. So an answer that is written beside another one may
// lack its kind. record returns an error for such an answer.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery.APIGroupHandler.ServeHTTP; compare at each upgrade.
func record(f form, handler http.Handler, req *http.Request) (*representation, error) {
	ask := req.Clone(context.WithoutCancel(req.Context()))
	ask.Header = http.Header{"Accept": {f.accept()}}
	ask.URL.RawQuery = ""
	answer := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(answer, ask)
	if answer.RespCode() != http.StatusOK {
		return nil, fmt.Errorf("record %s: status %d", req.URL.Path, answer.RespCode())
	}
	if lacksKind(answer.Data()) {
		return nil, fmt.Errorf("record %s: the answer lacks its kind", req.URL.Path)
	}
	return newRepresentation(answer.Header(), answer.Data()), nil
}

// yamlKind matches the kind of an object in YAML, and yamlField the first field of one.
var (
	yamlKind  = regexp.MustCompile(`(?m)^kind: `)
	yamlField = regexp.MustCompile(`^\w+:`)
)

// lacksKind reports whether a text is an object in JSON, YAML or protobuf that has no kind. In
// JSON the kind comes first.
func lacksKind(text []byte) bool {
	switch {
	case bytes.HasPrefix(text, protobufPrefix):
		var envelope runtime.Unknown
		return envelope.Unmarshal(text[len(protobufPrefix):]) == nil && envelope.Kind == ""
	case bytes.HasPrefix(text, []byte("{")):
		return !bytes.HasPrefix(bytes.TrimSpace(text[1:]), []byte(`"kind":`))
	}
	return yamlField.Match(text) && !yamlKind.Match(text)
}
