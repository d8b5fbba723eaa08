package discovery

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// representations are the forms of a document that a handler of Kubernetes' writes. Each
// is recorded when it is first asked for. The document itself never changes.
// The zero value is ready.
type representations struct {
	mu struct {
		sync.Mutex
		byForm map[form]*representation
	}
}

// serve answers in a form, by recording what the handler answers if it has to.
// What is no success is not kept.
func (p *representations) serve(f form, handler http.Handler, w http.ResponseWriter, req *http.Request) {
	if found := p.findOrRecord(f, handler, req); found != nil {
		found.serve(w, req)
		return
	}
	handler.ServeHTTP(w, req)
}

func (p *representations) has(f form) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.byForm[f] != nil
}

func (p *representations) findOrRecord(f form, handler http.Handler, req *http.Request) *representation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.mu.byForm[f]; found != nil {
		return found
	}
	found := record(f, handler, req)
	if found == nil {
		return nil
	}
	if p.mu.byForm == nil {
		p.mu.byForm = map[form]*representation{}
	}
	p.mu.byForm[f] = found
	return found
}

// record asks a handler on behalf of everybody: the user's deadline and
// preferences are left out. It returns nil for anything but a success.
func record(f form, handler http.Handler, req *http.Request) *representation {
	ask := req.Clone(context.WithoutCancel(req.Context()))
	ask.Header = http.Header{"Accept": {f.accept()}}
	ask.URL.RawQuery = ""
	answer := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(answer, ask)
	if answer.RespCode() != http.StatusOK {
		return nil
	}
	return newRepresentation(answer.Header(), answer.Data())
}

// cachedDocument is a document that every client gets alike, with the handler of
// Kubernetes' that writes it.
type cachedDocument struct {
	representations
	serializer runtime.NegotiatedSerializer
	handler    http.Handler
}

// ServeHTTP implements http.Handler.
func (s *cachedDocument) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n, err := negotiate(req, s.serializer, negotiation.DefaultEndpointRestrictions)
	if err != nil || audited(req) {
		s.handler.ServeHTTP(w, req)
		return
	}
	s.representations.serve(n.form, s.handler, w, req)
}
