package kube

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// storedDecoder decodes stored objects as Kubernetes' protobuf serializer does, but does
// not copy the whole object while it reads the envelope, a runtime.Unknown. For objects
// of 1 MB, that copy was a third of the garbage that encoding makes. Bytes that are not a
// regular envelope go to Kubernetes' serializer.
//
// Upstream: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.Serializer.Decode; compare at each upgrade.
type storedDecoder struct{ *protobuf.Serializer }

// setStoredDecoders makes the resources of Kubernetes' own scheme use a storedDecoder.
// APIServices, definitions and custom resources have other schemes.
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

// unmarshaler is implemented by API types that have a protobuf encoding.
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
	// UseOrCreateObject fails for objects that the scheme does not know, such as
	// runtime.Unknown, and for incomplete kinds.
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

// splitEnvelope splits a stored object into its kind and its encoded content. It returns
// false unless the envelope has each field at most once.
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
