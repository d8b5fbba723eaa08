package openapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/kube-openapi/pkg/handler3"
)

// rootDocument keeps the v3 root that was sent last.
type rootDocument struct {
	mu struct {
		sync.Mutex
		view *view
		// next is the root of the next handler.
		next []byte
		json []byte
	}
}

// serveRoot serves the list of v3 documents: our documents, and the documents of next.
// Like Kubernetes' aggregator it sets neither a content type nor an entity tag.
//
// Upstream: k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.specProxier.handleDiscovery; compare at each upgrade.
func (s *Server) serveRoot(w http.ResponseWriter, r *http.Request, next http.Handler) {
	made, err := s.makeRoot(r, next)
	if err != nil {
		s.logger.Error("OpenAPI v3 root cannot be built", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, "/openapi/v3", time.Now(), bytes.NewReader(made))
}

// makeRoot returns the root. It makes it again if the definitions or the next handler's
// root changed.
//
// Upstream: k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.specProxier.getOpenAPIV3Root; compare at each upgrade.
func (s *Server) makeRoot(r *http.Request, next http.Handler) ([]byte, error) {
	builtin, err := s.builtins.all(s.config.Locals())
	if err != nil {
		return nil, err
	}
	nextRoot := fetchNextRoot(r, next)
	view := s.views.get()
	s.root.mu.Lock()
	defer s.root.mu.Unlock()
	if s.root.mu.view == view && bytes.Equal(s.root.mu.next, nextRoot) {
		return s.root.mu.json, nil
	}
	all := handler3.OpenAPIV3Discovery{}
	if nextRoot != nil {
		if err := json.Unmarshal(nextRoot, &all); err != nil {
			s.logger.Error("OpenAPI v3 root of the aggregation layer cannot be read", "err", err)
		}
	}
	if all.Paths == nil {
		all.Paths = map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}
	}
	for path, g := range view.groups {
		all.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: hashURL(path, g.tag)}
	}
	for path, b := range builtin {
		all.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: hashURL(path, b.tag)}
	}
	made, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	s.root.mu.view, s.root.mu.next, s.root.mu.json = view, nextRoot, made
	return made, nil
}

// fetchNextRoot returns the root of the next handler. It returns nil if that handler does not
// answer with 200.
func fetchNextRoot(r *http.Request, next http.Handler) []byte {
	plain := r.Clone(r.Context())
	plain.Method = http.MethodGet
	for name := range plain.Header {
		if strings.HasPrefix(name, "If-") || name == "Range" {
			plain.Header.Del(name)
		}
	}
	w := responsewriter.NewInMemoryResponseWriter()
	next.ServeHTTP(w, plain)
	if w.RespCode() != http.StatusOK {
		return nil
	}
	return w.Data()
}
