package openapi

import (
	"net/http"
	"strconv"

	"github.com/NYTimes/gziphandler"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
	"github.com/millrace/millrace/internal/wire/encode"
)

// serveV2 serves /openapi/v2.
//
// Upstream: k8s.io/kube-openapi/pkg/handler.OpenAPIService.RegisterOpenAPIVersionedService; compare at each upgrade.
func (s *Server) serveV2(w http.ResponseWriter, r *http.Request, next http.Handler) {
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Add("Vary", "Accept")
	chosen, ok := chooseType(acceptClauses(r), typesV2)
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	var tag string
	var built *document
	remote := fetchAggregated(next)
	find := func(v *view) (b *base, err error) {
		if b, err = s.base(v, remote); err == nil {
			tag = v.tagV2(b, s.config.Version)
		}
		return b, err
	}
	build := func(v *view) error {
		b, err := find(v)
		if err == nil {
			built, err = s.documentV2(v, b, chosen.form, !acceptsGzip(r))
		}
		return err
	}
	err := s.withView(r.Context(), func(v *view) error {
		_, err := find(v)
		return err
	})
	if err == nil && !hasTag(r, tag) {
		err = s.withView(r.Context(), build)
	}
	if err != nil {
		s.logger.Error("OpenAPI v2 cannot be built", "err", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", chosen.returned)
	w.Header().Set("Etag", strconv.Quote(tag))
	content := &lazyDocument{build: func() (*document, error) {
		err := s.withView(r.Context(), build)
		return built, err
	}}
	if built != nil {
		content.documentReader = built.reader()
	}
	s.sendV2(w, r, content, tag)
}

// sendV2 sends the document. GET of the whole is sent piece by piece, deflated bytes as
// they are stored. Ranges and other methods are rare and go Kubernetes' way.
func (s *Server) sendV2(w http.ResponseWriter, r *http.Request, content *lazyDocument, tag string) {
	const name = "/openapi/v2"
	modified := s.modified.get(name, tag)
	compress := acceptsGzip(r)
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Range") == "":
		outcome := &statusRecorder{header: w.Header(), status: http.StatusOK}
		asked := r.Clone(r.Context())
		asked.Method = http.MethodHead
		http.ServeContent(outcome, asked, name, modified, content)
		if outcome.status != http.StatusOK {
			w.WriteHeader(outcome.status)
			return
		}
		if err := content.document.send(w, compress); err != nil {
			s.logger.Debug("OpenAPI v2 was not sent to its end", "err", err)
		}
	case !compress || r.Method == http.MethodHead:
		http.ServeContent(w, r, name, modified, content)
	default:
		w.Header().Del("Vary")
		gziphandler.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Vary", "Accept")
			http.ServeContent(w, r, name, modified, content)
		})).ServeHTTP(w, r)
	}
}

// send writes the document as the whole body of an answer. Before the call the headers are
// for plain text.
func (d *document) send(w http.ResponseWriter, compress bool) error {
	if !compress {
		return encode.WritePlain(w, d.pieces)
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Del("Content-Length")
	d.deflate()
	return encode.WriteGzip(w, d.pieces)
}

// statusRecorder records the status that a handler answers with, and drops the body.
type statusRecorder struct {
	header http.Header
	status int
}

func (o *statusRecorder) Header() http.Header { return o.header }

func (o *statusRecorder) WriteHeader(status int) { o.status = status }

func (o *statusRecorder) Write(p []byte) (int, error) { return len(p), nil }

// tagV2 returns the entity tag of a view's document on a base.
func (v *view) tagV2(b *base, program string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.base == b {
		return v.mu.tag
	}
	sum := newContentHash(program, "v2", b.tag)
	for _, d := range v.published {
		if !b.conflicting[d.Name] {
			sum.addDefinition(d)
		}
	}
	v.mu.base, v.mu.tag = b, sum.tag()
	return v.mu.tag
}

// documentV2 puts a view's document together. plain says that it will be sent inflated.
func (s *Server) documentV2(v *view, b *base, f form, plain bool) (*document, error) {
	frame := &b.json
	if f == v2Proto {
		var err error
		if frame, err = b.proto(); err != nil {
			return nil, err
		}
	}
	want := make([]fragmentRequest, len(v.published))
	for i, d := range v.published {
		if !b.conflicting[d.Name] {
			want[i] = fragmentRequest{fragmentKey{f, d.Name, ""}, d.Spec ^ b.renames, func() (fragment, error) { return s.buildV2(d, b, f) }}
		}
	}
	found, err := s.fragments.all(want, plain)
	if err != nil {
		return nil, err
	}
	return frame.document(found), nil
}

// buildV2 makes a definition's fragment on a base. If Kubernetes' builder fails for one
// version, the fragment is empty: Kubernetes leaves out the whole definition too.
func (s *Server) buildV2(d *crd.Definition, b *base, f form) (fragment, error) {
	made, direct, err := s.fromStored(d, "", f, func(shape publish.Shape) (*publish.PathTemplate, error) { return b.template(&s.templates, shape) })
	if direct || err != nil {
		return made, err
	}
	all, err := s.decodedV2(d, b)
	if err != nil {
		return fragment{}, err
	}
	return f.fragment(all)
}

// decodedV2 makes the entries of a decoded definition. It makes none if Kubernetes'
// builder fails.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi.createSpecCache; compare at each upgrade.
func (s *Server) decodedV2(d *crd.Definition, b *base) (publish.Entries, error) {
	full, err := s.full(d)
	if err != nil {
		return publish.Entries{}, err
	}
	var all publish.Entries
	for _, version := range servedVersions(full) {
		entries, err := s.templates.EntriesV2(full, version)
		if err != nil {
			s.logMissing(d, err)
			return publish.Entries{}, nil
		}
		all.Append(entries.Paths, entries.Schemas)
	}
	if b.renamed != nil {
		all.Paths = []byte(b.renamed.Replace(string(all.Paths)))
		all.Schemas = []byte(b.renamed.Replace(string(all.Schemas)))
	}
	return all, nil
}

// logMissing logs that a definition is left out.
func (s *Server) logMissing(d *crd.Definition, err error) {
	s.logger.Error("A custom resource is missing in OpenAPI v2", "name", d.Name, "err", err)
}

// proto returns the frame in protobuf.
func (b *base) proto() (*frame, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.proto != nil {
		return b.mu.proto, nil
	}
	whole := b.json.document(nil)
	plain := make([]byte, 0, whole.size())
	for _, piece := range whole.pieces {
		var err error
		if plain, err = piece.AppendPlain(plain); err != nil {
			return nil, err
		}
	}
	binary, err := publish.ProtoV2.Encode(string(plain))
	if err != nil {
		return nil, err
	}
	head, err := publish.ProtoV2.WithoutEntries(binary)
	if err != nil {
		return nil, err
	}
	made := &frame{form: v2Proto}
	if made.head, err = splitPieces(head); err != nil {
		return nil, err
	}
	paths, schemas, err := publish.ProtoV2.Entries(binary)
	if err != nil {
		return nil, err
	}
	if made.paths, err = splitPieces(paths); err != nil {
		return nil, err
	}
	if made.schemas, err = splitPieces(schemas); err != nil {
		return nil, err
	}
	b.mu.proto = made
	return made, nil
}
