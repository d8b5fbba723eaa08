package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/millrace/millrace/internal/wire/encode"
)

// builtinDocument is a v3 document of resources that Kubernetes serves itself. It never
// changes.
type builtinDocument struct {
	path, tag string
	json      []encode.Piece
}

// builtinDocuments are built when a v3 document or the list of them is first asked for. They
// are kept compressed, in less than 1 MB.
type builtinDocuments struct {
	mu struct {
		sync.Mutex
		byPath map[string]*builtinDocument
	}
}

// all returns the documents by path.
func (b *builtinDocuments) all(locals []Local) (map[string]*builtinDocument, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.byPath != nil {
		return b.mu.byPath, nil
	}
	found := map[string]*builtinDocument{}
	for _, local := range locals {
		if local.V3 == nil {
			continue
		}
		handler, err := local.V3()
		if err != nil {
			return nil, fmt.Errorf("build OpenAPI v3 of built-in resources: %w", err)
		}
		if err := readDocuments(handler, found); err != nil {
			return nil, err
		}
	}
	b.mu.byPath = found
	return found, nil
}

// readDocuments reads all documents that a handler has into found, by path.
func readDocuments(handler http.Handler, found map[string]*builtinDocument) error {
	var discovery handler3.OpenAPIV3Discovery
	root, err := fetch(handler, "/openapi/v3")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(root.Data(), &discovery); err != nil {
		return fmt.Errorf("decode OpenAPI v3 root: %w", err)
	}
	for path := range discovery.Paths {
		answer, err := fetch(handler, "/openapi/v3/"+path)
		if err != nil {
			return err
		}
		pieces, err := splitPieces(answer.Data())
		if err != nil {
			return err
		}
		found[path] = &builtinDocument{path: path, tag: strings.Trim(answer.Header().Get("Etag"), `"`), json: pieces}
	}
	return nil
}

// response is what a handler of this process has written.
type response interface {
	Data() []byte
	Header() http.Header
	RespCode() int
}

// fetch reads a path of a handler as JSON.
func fetch(handler http.Handler, path string) (response, error) {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{"Accept": {"application/json"}}}
	w := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(w, r)
	if w.RespCode() != http.StatusOK {
		return nil, fmt.Errorf("read %s of built-in resources: status %d", path, w.RespCode())
	}
	return w, nil
}

// buildBuiltin returns the document in a form. Protobuf is made of the JSON.
func (s *Server) buildBuiltin(b *builtinDocument, f form) (*document, error) {
	d := &document{}
	if f == v3JSON {
		d.add(b.json...)
		return d, nil
	}
	made, err := s.fragments.get(fragmentKey{f, "", b.path}, 0, func() (fragment, error) {
		var plain []byte
		var err error
		for _, piece := range b.json {
			if plain, err = piece.AppendPlain(plain); err != nil {
				return fragment{}, fmt.Errorf("read %s: %w", b.path, err)
			}
		}
		binary, err := handler3.ToV3ProtoBinary(plain)
		if err != nil {
			return fragment{}, fmt.Errorf("convert %s to protobuf: %w", b.path, err)
		}
		return newFragment(binary, nil)
	})
	if err != nil {
		return nil, err
	}
	d.add(made.paths)
	return d, nil
}
