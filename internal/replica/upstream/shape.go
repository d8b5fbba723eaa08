package upstream

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shape is a kind of request that the replica makes with its own credentials.
type shape string

const (
	// documentShape is GET of a document of discovery or OpenAPI, or of the version.
	documentShape shape = "document"
	// reviewShape is a question about a user or a right, or about the replica's own.
	reviewShape shape = "review"
	// publishedShape is GET, LIST or WATCH of the config map in which API servers publish whom
	// they trust.
	publishedShape shape = "published"
	// collectionShape is LIST or WATCH of all objects of a resource that may be copied.
	collectionShape shape = "collection"
	// firstShape is LIST of the name of one object of a resource, by which an etcd is compared
	// with the upstream.
	firstShape shape = "first"
	// objectShape is LIST or WATCH of one object of a resource that may be copied, by its name
	// in a namespace: feeds confirm by it that the upstream has the history that they have.
	objectShape shape = "object"
	// noShape is any other request.
	noShape shape = ""
)

// reviews are the collections to which questions about users and rights are sent.
var reviews = []string{
	"/apis/authentication.k8s.io/v1/selfsubjectreviews",
	"/apis/authentication.k8s.io/v1/tokenreviews",
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	"/apis/authorization.k8s.io/v1/subjectaccessreviews",
}

// publishedMaps is the collection that has the published config map.
const publishedMaps = "/api/v1/namespaces/" + metav1.NamespaceSystem + "/configmaps"

// shapeOf returns the shape of a request. path is its path below the address of the upstream.
// accept is its header, and mayFollow reports whether the objects of a resource may be copied.
func shapeOf(method, path string, query url.Values, accept string, mayFollow func(schema.GroupResource) bool) shape {
	if method == http.MethodPost {
		if slices.Contains(reviews, path) {
			return reviewShape
		}
		return noShape
	}
	if method != http.MethodGet {
		return noShape
	}
	gvr, isCollection := collectionOf(path)
	switch {
	case IsDocument(path):
		return documentShape
	case path == publishedMaps+"/"+publishedMap:
		return publishedShape
	case path == publishedMaps && slices.Equal(query["fieldSelector"], []string{"metadata.name=" + publishedMap}):
		return publishedShape
	case isCollection && mayFollow(gvr.GroupResource()):
		return collectionShape
	case isCollection && accept == onlyNames && isFirst(query):
		return firstShape
	}
	if gvr, ok := inNamespace(path); ok && selectsName(query) && mayFollow(gvr.GroupResource()) {
		return objectShape
	}
	return noShape
}

// isFirst reports whether a query is for one object. Kubernetes' client adds its timeout.
func isFirst(query url.Values) bool {
	for name := range query {
		if name != "limit" && name != "timeout" {
			return false
		}
	}
	return slices.Equal(query["limit"], []string{"1"})
}

// inNamespace returns the resource whose objects of one namespace a path names.
func inNamespace(path string) (schema.GroupVersionResource, bool) {
	parts := strings.Split(path, "/")
	at := len(parts) - 3
	if at < 3 || parts[at] != "namespaces" || !isWord(parts[at+1]) {
		return schema.GroupVersionResource{}, false
	}
	return collectionOf(strings.Join(append(parts[:at:at], parts[at+2]), "/"))
}

// selectsName reports whether a query selects the objects of one name, and no others.
func selectsName(query url.Values) bool {
	texts := query["fieldSelector"]
	if len(texts) != 1 {
		return false
	}
	selector, err := fields.ParseSelector(texts[0])
	if err != nil {
		return false
	}
	_, exact := selector.RequiresExactMatch("metadata.name")
	return exact && len(selector.Requirements()) == 1
}

// collectionOf returns the resource whose objects of all namespaces a path names.
func collectionOf(path string) (schema.GroupVersionResource, bool) {
	parts := strings.Split(path, "/")[1:]
	if slices.ContainsFunc(parts, func(part string) bool { return !isWord(part) }) {
		return schema.GroupVersionResource{}, false
	}
	switch {
	case len(parts) == 3 && parts[0] == "api":
		return schema.GroupVersionResource{Version: parts[1], Resource: parts[2]}, true
	case len(parts) == 4 && parts[0] == "apis":
		return schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: parts[3]}, true
	}
	return schema.GroupVersionResource{}, false
}

// isWord reports whether part of a path can be no other than what it says: it is not empty,
// has only characters of names in URLs, and does not lead up or nowhere.
func isWord(part string) bool {
	if part == "" || part == "." || part == ".." {
		return false
	}
	for i := range len(part) {
		c := part[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// IsDocument reports whether a path is one of discovery or OpenAPI, or /version. No such path
// names an object, and none reads otherwise when it is cleaned or unescaped.
func IsDocument(path string) bool {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != "" || len(path) > maxDocumentPath {
		return false
	}
	parts = parts[1:]
	if slices.ContainsFunc(parts, func(part string) bool { return !isWord(part) }) {
		return false
	}
	switch parts[0] {
	case "version":
		return len(parts) == 1
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	case "openapi":
		return len(parts) == 2 && (parts[1] == "v2" || parts[1] == "v3") || len(parts) > 2 && parts[1] == "v3"
	}
	return false
}

// maxDocumentPath bounds the paths of documents.
const maxDocumentPath = 512

// GroupVersionOf returns the group, and the version unless there is none, whose document of
// discovery a path names.
func GroupVersionOf(path string) (schema.GroupVersion, bool) {
	parts := strings.Split(path, "/")[1:]
	switch {
	case !IsDocument(path):
		return schema.GroupVersion{}, false
	case len(parts) == 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, true
	case len(parts) == 2 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1]}, true
	case len(parts) == 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	}
	return schema.GroupVersion{}, false
}

// IsUnclean reports whether a path has a part that is empty, "." or "..", but for a slash at
// its end, or begins with none. Servers on the way to the API server may read such a path as another one.
func IsUnclean(path string) bool {
	below, ok := strings.CutPrefix(path, "/")
	if !ok {
		return true
	}
	parts := strings.Split(below, "/")
	for i, part := range parts {
		if part == "." || part == ".." || part == "" && i < len(parts)-1 {
			return true
		}
	}
	return false
}
