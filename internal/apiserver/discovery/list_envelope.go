package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// encodedItem is an encoded item of a list, as it stands inside the encoded list. It is
// immutable.
type encodedItem struct{ json, proto []byte }

// wireObject is an object of Kubernetes' API that encodes itself as protobuf.
type wireObject interface{ Marshal() ([]byte, error) }

// newEncodedItem encodes an item. It panics if that fails: the items of discovery are made
// of strings, which always encode.
func newEncodedItem(obj wireObject) encodedItem {
	asJSON, err := json.Marshal(obj)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", obj, err))
	}
	asProto, err := obj.Marshal()
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", obj, err))
	}
	return encodedItem{json: asJSON, proto: asProto}
}

// listEnvelope is the encoding of a list without its items. Joining items inside an
// envelope gives the bytes of Kubernetes' encoders.
type listEnvelope struct {
	jsonHead, jsonTail []byte
	protoHead          []byte
	// field is the number of the field of items in protobuf.
	field protowire.Number
	kind  schema.GroupVersionKind
}

// wireList is a list that encodes itself as protobuf.
type wireList interface {
	runtime.Object
	wireObject
}

// newListEnvelope makes the envelope of a list: it encodes the list without items, and cuts
// the result where the items belong. The list's items must be an empty slice, not nil, and
// its kind must be set. field is the number of the field of items in protobuf.
func newListEnvelope(empty wireList, field protowire.Number) (listEnvelope, error) {
	asJSON, err := json.Marshal(empty)
	if err != nil {
		return listEnvelope{}, fmt.Errorf("encode empty list: %w", err)
	}
	head, tail, ok := bytes.Cut(asJSON, []byte("[]"))
	if !ok {
		return listEnvelope{}, fmt.Errorf("encode empty list: no items in %s", asJSON)
	}
	asProto, err := empty.Marshal()
	if err != nil {
		return listEnvelope{}, fmt.Errorf("encode empty list: %w", err)
	}
	return listEnvelope{
		jsonHead: append(head[:len(head):len(head)], '['), jsonTail: append([]byte{']'}, tail...),
		protoHead: asProto, field: field, kind: empty.GetObjectKind().GroupVersionKind(),
	}, nil
}

// join encodes a list as JSON or protobuf. It returns nil for other forms.
func (e *listEnvelope) join(as form, items []encodedItem) ([]byte, error) {
	switch {
	case as.pretty:
	case as.mediaType == runtime.ContentTypeJSON:
		return e.json(items), nil
	case as.mediaType == runtime.ContentTypeProtobuf:
		return e.proto(items)
	}
	return nil, nil
}

// json encodes a list as Kubernetes' JSON encoder does.
func (e *listEnvelope) json(items []encodedItem) []byte {
	size := len(e.jsonHead) + len(e.jsonTail) + len(items)
	for i := range items {
		size += len(items[i].json)
	}
	out := append(make([]byte, 0, size+1), e.jsonHead...)
	for i := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, items[i].json...)
	}
	out = append(out, e.jsonTail...)
	return append(out, '\n')
}

// protobufPrefix is the first bytes of all that Kubernetes encodes as protobuf.
var protobufPrefix = []byte("k8s\x00")

// proto encodes a list as Kubernetes' protobuf encoder does: the prefix, then a
// runtime.Unknown with the list inside.
func (e *listEnvelope) proto(items []encodedItem) ([]byte, error) {
	size := len(e.protoHead)
	for i := range items {
		size += protowire.SizeTag(e.field) + protowire.SizeBytes(len(items[i].proto))
	}
	list := append(make([]byte, 0, size), e.protoHead...)
	for i := range items {
		list = protowire.AppendTag(list, e.field, protowire.BytesType)
		list = protowire.AppendBytes(list, items[i].proto)
	}
	apiVersion, kind := e.kind.ToAPIVersionAndKind()
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: list}
	out := make([]byte, len(protobufPrefix)+envelope.Size())
	copy(out, protobufPrefix)
	if _, err := envelope.MarshalTo(out[len(protobufPrefix):]); err != nil {
		return nil, fmt.Errorf("encode list: %w", err)
	}
	return out, nil
}
