package crd

import (
	"bytes"
	"context"
	"io"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// The types in this file stand for codecs, convertors and the like that are compiled out
// of schemas. They get the schemas from the servedDefinition at each use. So a storage or
// a watch that has one of them holds no schema in memory.

// lazyCodec is the storage codec of a version.
type lazyCodec struct {
	served  *servedDefinition
	version string
	inner   runtime.Codec
}

var _ runtime.Codec = lazyCodec{}

// Decode implements runtime.Decoder.
func (l lazyCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if u, ok := into.(*unstructured.Unstructured); ok && u.GetAPIVersion() == l.apiVersion() && l.converts(data) {
		converted, err := l.served.converter.get(l, data)
		if err != nil {
			return nil, nil, err
		}
		return into, &converted.kind, converted.decodeInto(u)
	}
	compiled, err := l.served.schemas()
	if err != nil {
		return nil, nil, err
	}
	return compiled.codec(l.version, l.inner).Decode(data, defaults, into)
}

// Encode implements runtime.Encoder.
func (l lazyCodec) Encode(obj runtime.Object, w io.Writer) error {
	compiled, err := l.served.schemas()
	if err != nil {
		return err
	}
	return compiled.codec(l.version, l.inner).Encode(obj, w)
}

// Identifier implements runtime.Encoder.
func (l lazyCodec) Identifier() runtime.Identifier {
	return runtime.Identifier("millrace-crd-" + l.version + "-" + string(l.inner.Identifier()))
}

func (l lazyCodec) apiVersion() string { return l.served.def.Group + "/" + l.version }

// converts reports whether a webhook has to convert a stored object to the version. It does
// not convert objects that are stored in that version.
func (l lazyCodec) converts(stored []byte) bool {
	if !l.served.def.Webhook {
		return false
	}
	version, ok := bytes.CutPrefix(stored, storedPrefix)
	if !ok {
		return true
	}
	after, ok := bytes.CutPrefix(version, []byte(l.apiVersion()))
	return !ok || len(after) == 0 || after[0] != '"'
}

// storedPrefix is how Kubernetes begins an object that it stores as JSON.
var storedPrefix = []byte(`{"apiVersion":"`)

// ConvertsLabels implements storage.ConvertingCodec.
func (l lazyCodec) ConvertsLabels() bool { return l.served.def.Webhook }

// lazyConvertor converts between versions. An unsafe one may return parts of its argument.
type lazyConvertor struct {
	served *servedDefinition
	unsafe bool
}

var _ runtime.ObjectConvertor = lazyConvertor{}

func (l lazyConvertor) convertor() (runtime.ObjectConvertor, error) {
	compiled, err := l.served.schemas()
	switch {
	case err != nil:
		return nil, err
	case l.unsafe:
		return compiled.unsafe, nil
	}
	return compiled.safe, nil
}

// Convert implements runtime.ObjectConvertor.
func (l lazyConvertor) Convert(in, out, context any) error {
	c, err := l.convertor()
	if err != nil {
		return err
	}
	return c.Convert(in, out, context)
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (l lazyConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	c, err := l.convertor()
	if err != nil {
		return nil, err
	}
	return c.ConvertToVersion(in, gv)
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (l lazyConvertor) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	c, err := l.convertor()
	if err != nil {
		return "", "", err
	}
	return c.ConvertFieldLabel(gvk, label, value)
}

// lazyDefaulter sets defaults.
type lazyDefaulter struct {
	served *servedDefinition
	others runtime.ObjectDefaulter
}

// Default implements runtime.ObjectDefaulter.
func (l lazyDefaulter) Default(in runtime.Object) {
	compiled, err := l.served.schemas()
	if err != nil {
		l.served.server.cfg.Logger.Error("Custom resource cannot be defaulted: its schemas do not compile", "name", l.served.def.Name, "err", err)
		return
	}
	defaulter{l.others, compiled.schemaSet}.Default(in)
}

// lazyTableConvertor makes tables of objects of a version.
type lazyTableConvertor struct {
	served  *servedDefinition
	version string
}

// ConvertToTable implements rest.TableConvertor.
func (l lazyTableConvertor) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	compiled, err := l.served.schemas()
	if err != nil {
		return nil, err
	}
	return compiled.tables[l.version].ConvertToTable(ctx, obj, options)
}

// negotiatedSerializer encodes and decodes custom resources in all media types.
type negotiatedSerializer struct {
	served *servedDefinition
	types  []runtime.SerializerInfo
	// convertor converts objects before they are encoded.
	convertor runtime.ObjectConvertor
}

var _ runtime.NegotiatedSerializer = negotiatedSerializer{}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (n negotiatedSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return n.types }

// EncoderForVersion implements runtime.NegotiatedSerializer.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredNegotiatedSerializer.EncoderForVersion; compare at each upgrade.
func (n negotiatedSerializer) EncoderForVersion(encoder runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	scheme := apiextensionsapiserver.Scheme
	if own, ok := gv.(schema.GroupVersion); ok && own.Group == n.served.def.Group {
		gv = versionOnly{own}
	}
	return versioning.NewCodec(encoder, nil, n.convertor, scheme, scheme, scheme, gv, nil, "crdNegotiatedSerializer")
}

// versionOnly is a group version whose identifier does not name the group. Kubernetes keeps
// the identifiers of encoders for ever, to tell the encodings of one object apart. An
// object has one group, so its versions suffice, and groups that are gone leave nothing.
type versionOnly struct{ schema.GroupVersion }

// Identifier implements runtime.GroupVersioner.
func (v versionOnly) Identifier() string { return v.Version + " of its group" }

// DecoderToVersion implements runtime.NegotiatedSerializer.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredNegotiatedSerializer.DecoderToVersion; compare at each upgrade.
func (n negotiatedSerializer) DecoderToVersion(decoder runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	compiled, err := n.served.schemas()
	if err != nil {
		return failingDecoder{err}
	}
	strict := false
	if s, ok := decoder.(*json.Serializer); ok {
		strict = s.IsStrict()
	}
	scheme := apiextensionsapiserver.Scheme
	coercing := coercingDecoder{decoder, coercer{schemas: compiled.schemaSet, strict: strict}}
	return versioning.NewCodec(nil, coercing, runtime.UnsafeObjectConvertor(scheme), scheme, scheme,
		defaulter{scheme, compiled.schemaSet}, nil, gv, "unstructuredNegotiatedSerializer")
}

// failingDecoder returns an error for all that it is to decode.
type failingDecoder struct{ err error }

func (d failingDecoder) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, d.err
}

// creator makes an empty object of any kind.
type creator struct{}

// New implements runtime.ObjectCreater.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.unstructuredCreator.New; compare at each upgrade.
func (creator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
