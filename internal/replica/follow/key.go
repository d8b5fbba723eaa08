package follow

import (
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// Key names a FollowedResource. If objects are kept as the upstream sends them, InProtobuf
// tells those in protobuf from the same objects in JSON. It is not set for objects that are
// decoded.
type Key struct {
	schema.GroupResource
	InProtobuf bool
}

// protobufSuffix ends the names of keys with InProtobuf.
const protobufSuffix = "+protobuf"

// String returns the name of the resource in reports, and of its checkpoint.
func (k Key) String() string {
	if k.InProtobuf {
		return k.GroupResource.String() + protobufSuffix
	}
	return k.GroupResource.String()
}

// parseKey reads what String has written.
func parseKey(name string) Key {
	resource, ok := strings.CutSuffix(name, protobufSuffix)
	return Key{schema.ParseGroupResource(resource), ok}
}

// hasProtobuf reports whether the kinds of a group are sent in protobuf.
func hasProtobuf(gr schema.GroupResource) bool {
	return gr.Group != apiextensions.GroupName && gr.Group != apiregistration.GroupName
}

// Version says how a resource is followed: in which version, and whether as protobuf.
// Verbatim and Namespaced are as in apifeed.Config.
type Version struct {
	schema.GroupVersionResource
	Protobuf, Verbatim, Namespaced bool
}

// path returns the path of the collection of all objects.
func (v Version) path() string { return upstream.CollectionPath(v.GroupVersionResource) }
