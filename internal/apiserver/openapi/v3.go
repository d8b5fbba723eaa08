package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// documentSource is a v3 document before it is built.
type documentSource struct {
	path, tag string
	build     func(form) (*document, error)
}

// find returns the document of a group version. It returns nil if there is none. A
// built-in one comes first.
func (s *Server) find(v *view, path string) (*documentSource, error) {
	builtin, err := s.builtins.all(s.config.Locals())
	if err != nil {
		return nil, err
	}
	if b := builtin[path]; b != nil {
		return &documentSource{path, b.tag, func(f form) (*document, error) { return s.buildBuiltin(b, f) }}, nil
	}
	if g := v.groups[path]; g != nil {
		return &documentSource{path, g.tag, func(f form) (*document, error) { return s.groupDocument(g, f) }}, nil
	}
	return nil, nil
}

// serveV3 serves /openapi/v3/<path of a group version>.
func (s *Server) serveV3(w http.ResponseWriter, r *http.Request, next http.Handler) {
	wanted := acceptClauses(r)
	chosen, acceptable := chooseType(wanted, typesV3)
	hash := r.URL.Query().Get("hash")
	var found *documentSource
	var built *document
	err := s.withView(r.Context(), func(v *view) (err error) {
		found, err = s.find(v, strings.TrimPrefix(r.URL.Path, "/openapi/v3/"))
		if found == nil || !acceptable || hash != "" && hash != found.tag || hasTag(r, found.tag) {
			return err
		}
		built, err = found.build(chosen.form)
		return err
	})
	if err == nil && found == nil {
		next.ServeHTTP(w, r)
		return
	}
	instrumented("openapi/v3/", func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			s.logger.Error("OpenAPI v3 cannot be built", "path", r.URL.Path, "err", err)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		s.sendV3(w, r, responseV3{source: found, document: built, accepted: wanted, chosen: chosen, acceptable: acceptable})
	})(w, r)
}

// responseV3 is the answer to a request for a document.
type responseV3 struct {
	source *documentSource
	// document is nil if the answer needs none, or none yet.
	document   *document
	accepted   []goautoneg.Accept
	chosen     mediaType
	acceptable bool
}

// sendV3 sends a document, or the error or redirect that takes its place.
//
// Upstream: k8s.io/kube-openapi/pkg/handler3.OpenAPIService.HandleGroupVersion; compare at each upgrade.
func (s *Server) sendV3(w http.ResponseWriter, r *http.Request, a responseV3) {
	found, chosen := a.source, a.chosen
	hash := r.URL.Query().Get("hash")
	w.Header().Add("Vary", "Accept")
	switch {
	case len(a.accepted) == 0:
		return // Kubernetes answers 200 with an empty body
	case !a.acceptable:
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", chosen.returned)
	w.Header().Set("Etag", strconv.Quote(found.tag))
	if hash != "" {
		if hash != found.tag {
			http.Redirect(w, r, hashURL(found.path, found.tag), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	content := &lazyDocument{build: func() (*document, error) { return found.build(chosen.form) }}
	if a.document != nil {
		content.documentReader = a.document.reader()
	}
	http.ServeContent(w, r, "", s.modified.get(found.path, found.tag), content)
}

// hasTag reports whether a client may have the content already, so that there may be
// nothing to build. http.ServeContent decides.
func hasTag(r *http.Request, tag string) bool {
	return strings.Contains(r.Header.Get("If-None-Match"), tag)
}

// hashURL returns the path of the document with this tag.
//
// Upstream: k8s.io/kube-openapi/pkg/handler3.constructServerRelativeURL; compare at each upgrade.
func hashURL(path, tag string) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {tag}}.Encode()}
	return u.String()
}

// groupDocument puts the document of a group version of custom resources together.
func (s *Server) groupDocument(g *groupVersion, f form) (*document, error) {
	frame, err := s.frameV3(shapes(g.members), f)
	if err != nil {
		return nil, err
	}
	want := make([]fragmentRequest, len(g.members))
	for i, m := range g.members {
		want[i] = fragmentRequest{fragmentKey{f, m.Name, m.version.Name}, m.Spec, func() (fragment, error) { return s.buildV3(m, f) }}
	}
	found, err := s.fragments.all(want, true)
	if err != nil {
		return nil, err
	}
	return frame.document(found), nil
}

// buildV3 makes a version's fragment. It is empty if Kubernetes' builder fails, as
// Kubernetes leaves the version out.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapiv3.Controller.buildV3Spec; compare at each upgrade.
func (s *Server) buildV3(m member, f form) (fragment, error) {
	made, direct, err := s.fromStored(m.Definition, m.version.Name, f, s.templates.V3)
	if direct || err != nil {
		return made, err
	}
	full, err := s.full(m.Definition)
	if err != nil {
		return fragment{}, err
	}
	i := versionIndex(full, m.version.Name)
	if i < 0 {
		return fragment{}, crd.ErrChanged
	}
	entries, err := s.templates.EntriesV3(full, &full.Spec.Versions[i])
	if err != nil {
		s.logger.Error("A custom resource is missing in OpenAPI v3", "name", m.Name, "version", m.version.Name, "err", err)
		return fragment{}, nil
	}
	return f.fragment(entries)
}

func versionIndex(full *apiextensionsv1.CustomResourceDefinition, name string) int {
	return slices.IndexFunc(full.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
}
