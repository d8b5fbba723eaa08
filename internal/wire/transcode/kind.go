package transcode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind has what is needed to write the objects of one kind and version. It is immutable.
type Kind struct {
	// root is the table of the objects.
	root *message
	// head begins stored objects: the magic number, the kind and version, and the tag of the
	// object. sentHead begins objects that are sent as protobuf.
	head, sentHead []byte
	// opening begins objects that are sent alone as JSON: the kind and version.
	opening []byte
	// partial says that only the metadata is sent. custom says that the kind is one of custom
	// resources: head is their quoted apiVersion, opening their quoted kind, and all else is
	// not set.
	partial, custom bool
}

// Metadata returns what is needed to write the metadata of the objects alone, in a version of
// PartialObjectMetadata. All of an object has its part in the fingerprint, because
// defaulting and conversion may change metadata for what they find elsewhere.
func (k *Kind) Metadata(version string) (*Kind, error) {
	if k.custom {
		return nil, fmt.Errorf("%w: metadata of custom resources", ErrUnsupported)
	}
	gvk := schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "PartialObjectMetadata"}
	opening, err := openingOfKind(gvk)
	if err != nil {
		return nil, err
	}
	return &Kind{root: k.root, head: k.head, sentHead: headOf(gvk), opening: opening, partial: true}, nil
}

// openingOfKind returns what begins an object in JSON.
func openingOfKind(gvk schema.GroupVersionKind) ([]byte, error) {
	opening, err := json.Marshal(metav1.TypeMeta{Kind: gvk.Kind, APIVersion: gvk.GroupVersion().String()})
	if err != nil {
		return nil, fmt.Errorf("encode kind: %w", err)
	}
	return opening[:len(opening)-1], nil
}

// Around an object in protobuf stand the fields of a runtime.Unknown.
const (
	unknownTypeMeta protowire.Number = 1
	unknownRaw      protowire.Number = 2
	typeAPIVersion  protowire.Number = 1
	typeKind        protowire.Number = 2
)

const (
	storageMagic = "k8s\x00"
	// unknownTail ends a runtime.Unknown: no content encoding and no content type.
	unknownTail = "\x1a\x00\x22\x00"
)

// metadataTag is the tag of an object's metadata, which is the first field of all kinds.
const metadataTag = 1<<3 | lengthDelimited

// Kind returns the tables of a kind and version. It fails with ErrUnsupported for types that
// tables do not describe. It also does for versions other than that in which Kubernetes
// stores the kind, because fingerprints do not cover what their conversion does.
func (t *Tables) Kind(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (*Kind, error) {
	for _, gv := range scheme.PrioritizedVersionsForGroup(gvk.Group) {
		if gv == gvk.GroupVersion() {
			break
		}
		if scheme.Recognizes(gv.WithKind(gvk.Kind)) {
			return nil, fmt.Errorf("%w: %v is stored as %s", ErrUnsupported, gvk, gv.Version)
		}
	}
	obj, err := scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make object: %w", err)
	}
	typ := reflect.TypeOf(obj)
	if typ.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("%w: %v", ErrUnsupported, typ)
	}
	compiled, err := t.compile(typ.Elem())
	if err != nil {
		return nil, err
	}
	metadata, err := t.compile(reflect.TypeFor[metav1.ObjectMeta]())
	if err != nil {
		return nil, err
	}
	// The resourceVersion is only set in the metadata of the object itself. Objects inside of
	// it, such as a pod's template, have the resourceVersion of their table.
	own := *metadata
	own.fields = slices.Clone(metadata.fields)
	for i := range own.fields {
		own.fields[i].revision = string(own.fields[i].name) == `,"resourceVersion":`
	}
	root := *compiled
	root.fields = slices.Clone(compiled.fields)
	for i := range root.fields {
		root.fields[i].top = true
	}
	at := root.find(metadataTag >> 3)
	if at < 0 || root.fields[at].message != metadata {
		return nil, fmt.Errorf("%w: %v has no metadata", ErrUnsupported, typ)
	}
	root.fields[at].message = &own
	opening, err := openingOfKind(gvk)
	if err != nil {
		return nil, err
	}
	head := headOf(gvk)
	return &Kind{root: &root, head: head, sentHead: head, opening: opening}, nil
}

// headOf returns what begins an object in protobuf.
func headOf(gvk schema.GroupVersionKind) []byte {
	var meta []byte
	meta = protowire.AppendTag(meta, typeAPIVersion, protowire.BytesType)
	meta = protowire.AppendString(meta, gvk.GroupVersion().String())
	meta = protowire.AppendTag(meta, typeKind, protowire.BytesType)
	meta = protowire.AppendString(meta, gvk.Kind)
	head := protowire.AppendTag([]byte(storageMagic), unknownTypeMeta, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	return protowire.AppendTag(head, unknownRaw, protowire.BytesType)
}

// content returns the object inside of a stored value. It returns false for objects of
// another kind or version, and for any other envelope than the one that Kubernetes'
// encoder writes.
func (k *Kind) content(stored []byte) ([]byte, bool) {
	if len(stored) < len(k.head) || string(stored[:len(k.head)]) != string(k.head) {
		return nil, false
	}
	content, end := payload(stored, len(k.head))
	if end < 0 || string(stored[end:]) != unknownTail {
		return nil, false
	}
	return content, len(content) > 0 && content[0] == metadataTag
}
