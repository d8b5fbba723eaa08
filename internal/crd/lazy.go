package crd

import (
	"bytes"
	"context"
	"fmt"
	"io"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// The types of this file stand for what is made out of schemas, which they ask
// for each time that they are used. So what holds them, a storage or a watch,
// holds no schema.

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
		made, err := l.served.converter.get(l, data)
		if err != nil {
			return nil, nil, err
		}
		return into, &made.kind, made.decodeInto(u)
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

// converts reports whether a webhook has to make an object of the version out of a
// stored one. Of objects that are stored in the version it is not asked.
func (l lazyCodec) converts(stored []byte) bool {
	if !l.served.def.Webhook {
		return false
	}
	rest, ok := bytes.CutPrefix(stored, storedPrefix)
	if !ok {
		return true
	}
	rest, ok = bytes.CutPrefix(rest, []byte(l.apiVersion()))
	return !ok || len(rest) == 0 || rest[0] != '"'
}

// storedPrefix begins what Kubernetes stores as JSON.
var storedPrefix = []byte(`{"apiVersion":"`)

// ConvertsLabels implements storage.ConvertingCodec.
func (l lazyCodec) ConvertsLabels() bool { return l.served.def.Webhook }

// lazyConvertor converts between versions.
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

// lazyDefaulter fills in defaults.
type lazyDefaulter struct {
	served *servedDefinition
	others runtime.ObjectDefaulter
}

// Default implements runtime.ObjectDefaulter.
func (l lazyDefaulter) Default(in runtime.Object) {
	compiled, err := l.served.schemas()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("default an object of %s: %w", l.served.def.Name, err))
		return
	}
	defaulter{l.others, compiled.schemaSet}.Default(in)
}

// lazyTableConvertor prints objects of a version.
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

// negotiatedSerializer knows the media types that custom resources are served in.
type negotiatedSerializer struct {
	served *servedDefinition
	types  []runtime.SerializerInfo
	// convertor is the encoders'.
	convertor runtime.ObjectConvertor
}

var _ runtime.NegotiatedSerializer = negotiatedSerializer{}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (n negotiatedSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return n.types }

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (n negotiatedSerializer) EncoderForVersion(encoder runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	scheme := apiextensionsapiserver.Scheme
	if own, ok := gv.(schema.GroupVersion); ok && own.Group == n.served.def.Group {
		gv = versionOnly{own}
	}
	return versioning.NewCodec(encoder, nil, n.convertor, scheme, scheme, scheme, gv, nil, "crdNegotiatedSerializer")
}

// versionOnly is a group version whose identifier does not tell the group. Kubernetes
// keeps an identifier of each encoder for good, to tell the encodings of an object from
// one another: its versions do that.
type versionOnly struct{ schema.GroupVersion }

// Identifier implements runtime.GroupVersioner.
func (v versionOnly) Identifier() string { return v.Version + " of its group" }

// DecoderToVersion implements runtime.NegotiatedSerializer.
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

type failingDecoder struct{ err error }

func (d failingDecoder) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, d.err
}

// creator makes empty objects of any kind.
type creator struct{}

// New implements runtime.ObjectCreater.
func (creator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
