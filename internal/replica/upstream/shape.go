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
	// collectionShape is LIST or WATCH, in all namespaces, of a resource that may be copied.
	collectionShape shape = "collection"
	// objectShape is LIST or WATCH of one object by its name, in its namespace, of a resource that
	// may be copied. The object need not exist. A feed confirms a history by it.
	objectShape shape = "object"
	// firstShape is LIST of the metadata of one object, of any resource.
	firstShape shape = "first"
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

// metadataOnly is the media type of a LIST that has no more of objects than their metadata.
const metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

// shapeOf returns the shape of a request. path is the request's path below the address of the
// upstream. mayFollow reports whether the replica may copy the objects of a resource.
func shapeOf(req *http.Request, path string, query url.Values, mayFollow func(schema.GroupResource) bool) shape {
	method := req.Method
	if method == http.MethodPost {
		if slices.Contains(reviews, path) {
			return reviewShape
		}
		return noShape
	}
	if method != http.MethodGet {
		return noShape
	}
	gvr, namespace, isCollection := collectionOf(path)
	ofAll := isCollection && namespace == ""
	switch {
	case IsDocument(path):
		return documentShape
	case path == publishedMaps+"/"+publishedMap:
		return publishedShape
	case path == publishedMaps && slices.Equal(query["fieldSelector"], []string{"metadata.name=" + publishedMap}):
		return publishedShape
	case ofAll && mayFollow(gvr.GroupResource()):
		return collectionShape
	case isCollection && !ofAll && selectsName(query) && mayFollow(gvr.GroupResource()):
		return objectShape
	case ofAll && asksForOne(query) && slices.Equal(req.Header["Accept"], []string{metadataOnly}):
		return firstShape
	}
	return noShape
}

// asksForOne reports whether the parameters of a LIST ask for one object. client-go adds a timeout.
func asksForOne(query url.Values) bool {
	for name := range query {
		if name != "limit" && name != "timeout" {
			return false
		}
	}
	return slices.Equal(query["limit"], []string{"1"})
}

// selectsName reports whether the parameters of a LIST or WATCH select one name, and nothing else.
func selectsName(query url.Values) bool {
	texts := query["fieldSelector"]
	if len(texts) != 1 {
		return false
	}
	selector, err := fields.ParseSelector(texts[0])
	if err != nil {
		return false
	}
	name, exact := selector.RequiresExactMatch("metadata.name")
	return exact && name != "" && len(selector.Requirements()) == 1
}

// CollectionPath returns the path of all objects of a resource.
func CollectionPath(gvr schema.GroupVersionResource) string {
	root := "/apis/" + gvr.Group
	if gvr.Group == "" {
		root = "/api"
	}
	return root + "/" + gvr.Version + "/" + gvr.Resource
}

// collectionOf returns the resource whose objects a path names, and their namespace. The
// namespace is "" for all.
func collectionOf(path string) (gvr schema.GroupVersionResource, namespace string, ok bool) {
	parts := strings.Split(path, "/")[1:]
	if slices.ContainsFunc(parts, func(part string) bool { return !isWord(part) }) {
		return gvr, "", false
	}
	switch {
	case len(parts) > 1 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) > 2 && parts[0] == "apis":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return gvr, "", false
	}
	if len(parts) == 3 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) != 1 {
		return gvr, "", false
	}
	gvr.Resource = parts[0]
	return gvr, namespace, true
}

// isWord reports whether every server reads a part of a path alike: it is not empty, is not
// "." or "..", and has only characters of names in URLs.
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

// GroupVersionOf returns the group whose document of discovery a path names, with the version
// if the path has one. It returns false for other paths.
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

// leadsElsewhere reports whether a path has a part "." or "..", or does not begin with a
// slash. A server on the way that cleans paths may send it to another cluster or another
// server. A path with an empty part stays where it is.
func leadsElsewhere(path string) bool {
	return !strings.HasPrefix(path, "/") || slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// IsUnclean reports whether a path has a part that is empty, "." or "..", or does not begin
// with a slash. A slash at its end is clean. Servers on the way to the API server may take
// such a path for another path.
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
