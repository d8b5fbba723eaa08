package benchtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	definitionsURI = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	openAPIV2URI   = "/openapi/v2"
	openAPIV3URI   = "/openapi/v3"
	discoveryType  = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// definitions is the part of an API that "bench crd" and "bench discovery" use:
// definitions, custom objects, discovery and OpenAPI. Definitions are files, so that they
// outlive a server. The zero value serves nothing.
type definitions struct {
	dir           string // has a file for each definition; "" serves nothing
	openAPIBroken bool   // OpenAPI v2 does not have the definitions

	mu struct {
		sync.Mutex
		objects          map[string]bool // by resource, a slash and name
		refusedFirstList bool            // the first LIST of custom objects got a 429
	}
}

// definition is the part of a definition that the API uses.
type definition struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
	} `json:"spec"`
}

func (d definition) path() string { return "/apis/" + d.Spec.Group + "/v1/" + d.Spec.Names.Plural }

// all returns the definitions that exist.
func (f *definitions) all() []definition {
	files, err := filepath.Glob(filepath.Join(f.dir, "*.crd"))
	if err != nil {
		panic(err)
	}
	all := make([]definition, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &all[i])
		}
		if err != nil {
			panic(err)
		}
	}
	return all
}

// serve answers a request for definitions, custom objects, discovery or OpenAPI. It returns false
// for another request.
func (f *definitions) serve(w http.ResponseWriter, r *http.Request) bool {
	if f.dir == "" {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch path := r.URL.Path; {
	case path == namespacesPath:
		f.answer(w, map[string]any{"kind": "NamespaceList", "apiVersion": "v1"})
	case strings.HasPrefix(path, definitionsURI):
		f.definition(w, r)
	case strings.HasPrefix(path, openAPIV2URI), strings.HasPrefix(path, openAPIV3URI):
		f.openAPI(w, r)
	case strings.HasPrefix(path, "/api/v1/") && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList"):
		f.answer(w, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"})
	case path == "/api" && strings.Contains(r.Header.Get("Accept"), "g=apidiscovery.k8s.io"):
		w.Header().Set("Content-Type", discoveryType)
		io.WriteString(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`)
	case path == "/api":
		f.answer(w, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case path == "/apis":
		f.groups(w, r)
	case path == "/api/v1" || strings.HasPrefix(path, "/apis/") && strings.Count(path, "/") == 3:
		f.answer(w, map[string]any{"kind": "APIResourceList", "groupVersion": strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")})
	case strings.HasPrefix(path, "/apis/"):
		f.objectLocked(w, r)
	default:
		return false
	}
	return true
}

func (f *definitions) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", testbed.AcceptJSON)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// definition answers a request for definitions: a POST, a DELETE or a LIST.
func (f *definitions) definition(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		var d definition
		body, _ := io.ReadAll(r.Body)
		err := json.Unmarshal(body, &d)
		if err == nil {
			err = os.WriteFile(filepath.Join(f.dir, d.Metadata.Name+".crd"), body, 0o600)
		}
		if err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusCreated)
	case http.MethodDelete:
		if err := os.Remove(filepath.Join(f.dir, filepath.Base(r.URL.Path)+".crd")); err != nil {
			panic(err)
		}
		f.answer(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		items := []any{}
		for _, d := range f.all() {
			items = append(items, map[string]any{"metadata": d.Metadata, "status": map[string]any{"conditions": []any{
				map[string]any{"type": "Established", "status": "True", "lastTransitionTime": "2126-01-02T03:04:05Z"},
			}}})
		}
		kind := map[bool]string{true: "PartialObjectMetadataList", false: "CustomResourceDefinitionList"}[strings.Contains(r.Header.Get("Accept"), "Partial")]
		f.answer(w, map[string]any{"kind": kind, "apiVersion": "meta.k8s.io/v1", "items": items})
	}
}

// groups answers with aggregated discovery and its ETag, or with the list of groups.
func (f *definitions) groups(w http.ResponseWriter, r *http.Request) {
	byGroup := map[string][]any{}
	tag := fnv.New64()
	for _, d := range f.all() {
		byGroup[d.Spec.Group] = append(byGroup[d.Spec.Group], map[string]any{"resource": d.Spec.Names.Plural, "responseKind": map[string]any{"kind": "X"}})
		io.WriteString(tag, d.Metadata.Name)
	}
	aggregated := strings.Contains(r.Header.Get("Accept"), "g=apidiscovery.k8s.io")
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", tag.Sum64()))
	if aggregated && r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	items, groups := []any{}, []any{}
	for name, resources := range byGroup {
		items = append(items, map[string]any{"metadata": map[string]any{"name": name}, "versions": []any{
			map[string]any{"version": "v1", "resources": resources},
		}})
		version := map[string]any{"groupVersion": name + "/v1", "version": "v1"}
		groups = append(groups, map[string]any{"name": name, "versions": []any{version}, "preferredVersion": version})
	}
	if !aggregated {
		f.answer(w, map[string]any{"kind": "APIGroupList", "groups": groups})
		return
	}
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", discoveryType)
	json.NewEncoder(w).Encode(map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

// openAPI answers with the paths of OpenAPI v2, or with the list of documents of v3.
func (f *definitions) openAPI(w http.ResponseWriter, r *http.Request) {
	paths := map[string]any{}
	for _, d := range f.all() {
		switch {
		case r.URL.Path == openAPIV2URI && !f.openAPIBroken:
			paths[d.path()] = map[string]any{}
		case r.URL.Path == openAPIV3URI:
			name := "apis/" + d.Spec.Group + "/v1"
			paths[name] = map[string]any{"serverRelativeURL": openAPIV3URI + "/" + name + "?hash=1"}
		}
	}
	f.answer(w, map[string]any{"paths": paths})
}

// objectLocked answers requests for custom objects of existing definitions.
func (f *definitions) objectLocked(w http.ResponseWriter, r *http.Request) {
	collection, name, _ := strings.Cut(strings.Replace(r.URL.Path, "/namespaces/default", "", 1), "/v1/")
	name, object, _ := strings.Cut(name, "/")
	if !slices.ContainsFunc(f.all(), func(d definition) bool { return d.path() == collection+"/v1/"+name }) {
		http.NotFound(w, r)
		return
	}
	if f.mu.objects == nil {
		f.mu.objects = map[string]bool{}
	}
	switch {
	case r.Method == http.MethodPost:
		var d definition
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			panic(err)
		}
		f.mu.objects[name+"/"+d.Metadata.Name] = true
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch:
		if !f.mu.objects[name+"/"+object] {
			http.NotFound(w, r)
		}
	case !f.mu.refusedFirstList:
		f.mu.refusedFirstList = true
		w.Header().Set("Retry-After", "1")
		http.Error(w, "storage is initializing", http.StatusTooManyRequests)
	default:
		f.answer(w, map[string]any{"kind": "List", "items": []any{}})
	}
}
