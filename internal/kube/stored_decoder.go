package kube

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// storedDecoder decodes as Kubernetes' protobuf serializer does, but does not copy the
// whole object while it reads what is around it: a runtime.Unknown of
// k8s.io/apimachinery. What is unusual it leaves to that serializer.
type storedDecoder struct{ *protobuf.Serializer }

// setStoredDecoders makes built-in resources decode so.
func setStoredDecoders(factory *serverstorage.DefaultStorageFactory) {
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		all := schema.GroupResource{Group: gv.Group, Resource: serverstorage.AllResources}
		factory.AddSerializationChains(nil, wrapDecoders, all)
	}
}

func wrapDecoders(decoders []runtime.Decoder) []runtime.Decoder {
	for i, d := range decoders {
		if s, ok := d.(*protobuf.Serializer); ok {
			decoders[i] = storedDecoder{s}
		}
	}
	return decoders
}

// unmarshaler is what the types of Kubernetes' API have that can be protobuf.
type unmarshaler interface {
	Reset()
	Unmarshal([]byte) error
}

// Decode implements runtime.Decoder.
func (d storedDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	kind, content, ok := splitEnvelope(data)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	// Objects that the scheme does not know, such as runtime.Unknown, and kinds that are
	// not whole are errors here.
	obj, err := runtime.UseOrCreateObject(legacyscheme.Scheme, legacyscheme.Scheme, kind, into)
	m, ok := obj.(unmarshaler)
	if err != nil || !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	m.Reset()
	if err := m.Unmarshal(content); err != nil {
		return nil, &kind, err
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj, &kind, nil
}

// splitEnvelope finds the kind of a stored object and the object. It reports false for what is
// not an envelope with each field at most once.
func splitEnvelope(data []byte) (kind schema.GroupVersionKind, content []byte, ok bool) {
	envelope, ok := bytes.CutPrefix(data, storageMagic)
	if !ok {
		return kind, nil, false
	}
	head, ok := byteFields(envelope, unknownContentType)
	if !ok {
		return kind, nil, false
	}
	meta, ok := byteFields(head[unknownTypeMeta], typeKind)
	if !ok {
		return kind, nil, false
	}
	kind = schema.FromAPIVersionAndKind(string(meta[typeAPIVersion]), string(meta[typeKind]))
	return kind, head[unknownRaw], true
}
