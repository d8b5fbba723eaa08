package kube

import (
	"bytes"
	"errors"
	"reflect"
	"runtime/metrics"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// bothDecoders are Kubernetes' decoder of stored objects and ours.
func bothDecoders(t *testing.T) (kubernetes *protobuf.Serializer, ours runtime.Decoder) {
	scheme := legacyscheme.Scheme
	kubernetes = protobuf.NewSerializer(scheme, scheme)
	ours = wrapDecoders([]runtime.Decoder{kubernetes})[0]
	if ours == runtime.Decoder(kubernetes) {
		t.Fatal("the decoder was not replaced")
	}
	return kubernetes, ours
}

func sameDecoding(t *testing.T, data []byte, into func() runtime.Object) {
	t.Helper()
	kubernetes, ours := bothDecoders(t)
	defaults := &schema.GroupVersionKind{Group: "default", Version: "v7", Kind: "Kind"}
	want, wantKind, wantErr := kubernetes.Decode(data, defaults, into())
	got, gotKind, err := ours.Decode(data, defaults, into())
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotKind, wantKind) {
		t.Fatalf("%.40q...: got %v %#v, want %v %#v", data, gotKind, got, wantKind, want)
	}
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%.40q...: got error %v, want %v", data, err, wantErr)
	}
}

func noObject() runtime.Object { return nil }

func encodeStored(t *testing.T, obj runtime.Object) []byte {
	kubernetes, _ := bothDecoders(t)
	var buf bytes.Buffer
	if err := kubernetes.Encode(obj, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestDecodeOfEveryKindEqualsKubernetes decodes an object of every kind.
func TestDecodeOfEveryKindEqualsKubernetes(t *testing.T) {
	kinds := 0
	for kind := range legacyscheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal {
			continue
		}
		obj, err := legacyscheme.Scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := obj.(unmarshaler); !ok {
			continue
		}
		if m, ok := obj.(metav1.Object); ok {
			m.SetName("one")
			m.SetLabels(map[string]string{"a": "b"})
		}
		obj.GetObjectKind().SetGroupVersionKind(kind)
		sameDecoding(t, encodeStored(t, obj), noObject)
		kinds++
	}
	if kinds < 500 {
		t.Errorf("only %d kinds", kinds)
	}
}

func secret(size int) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"key": make([]byte, size)}}
}

func TestDecodeIntoEqualsKubernetes(t *testing.T) {
	data := encodeStored(t, secret(100))
	for name, into := range map[string]func() runtime.Object{
		"internal":     func() runtime.Object { return &api.Secret{} },
		"the version":  func() runtime.Object { return &corev1.Secret{StringData: map[string]string{"is": "to go"}} },
		"another":      func() runtime.Object { return &corev1.Pod{} },
		"unregistered": func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		"unknown":      func() runtime.Object { return &runtime.Unknown{} },
	} {
		t.Run(name, func(t *testing.T) { sameDecoding(t, data, into) })
	}
}

func TestDecodeOfDamagedBytesEqualsKubernetes(t *testing.T) {
	data := encodeStored(t, secret(100))
	for end := range data {
		sameDecoding(t, data[:end], noObject)
	}
	for at := range data {
		for _, bit := range []byte{1, 8, 128} {
			broken := bytes.Clone(data)
			broken[at] ^= bit
			sameDecoding(t, broken, noObject)
		}
	}
	// The envelope twice, a field as a number, a repeated field, an unknown field, an
	// envelope without an object, and incomplete kinds.
	twice := append(bytes.Clone(data), encodeStored(t, &runtime.Unknown{Raw: []byte("\x0a\x03\x0a\x01t")})[len(storageMagic):]...)
	sameDecoding(t, twice, noObject)
	bare, ok := bytes.CutSuffix(data, []byte{3<<3 | 2, 0, unknownContentType<<3 | 2, 0})
	if !ok {
		t.Fatal("the envelope does not end with two empty fields")
	}
	sameDecoding(t, append(bytes.Clone(bare), unknownContentType<<3, 1), noObject)
	sameDecoding(t, append(bytes.Clone(data), "\x0a\x06\x12\x04Node"...), noObject)
	sameDecoding(t, append(bytes.Clone(data), "\x12\x05\x0a\x03\x0a\x01t"...), noObject)
	sameDecoding(t, append(bytes.Clone(data), 9<<3, 1), noObject)
	sameDecoding(t, encodeStored(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Secret"}}), noObject)
	sameDecoding(t, encodeStored(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Secret"}, Raw: []byte("x")}), noObject)
	sameDecoding(t, encodeStored(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1"}, Raw: []byte("x")}), noObject)
	envelope := encodeStored(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Alien"}, Raw: []byte("x")})
	sameDecoding(t, envelope, noObject)
	sameDecoding(t, []byte(`{"apiVersion":"v1","kind":"Secret"}`), noObject)
}

// TestDecodeCopiesOnce checks that decoding a large object allocates little more than its
// size.
func TestDecodeCopiesOnce(t *testing.T) {
	const size = 1 << 20
	data := encodeStored(t, secret(size))
	_, ours := bothDecoders(t)
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	bytesFor := func(d runtime.Decoder) uint64 {
		metrics.Read(allocated)
		before := allocated[0].Value.Uint64()
		obj, _, err := d.Decode(data, nil, nil)
		if s, ok := obj.(*corev1.Secret); err != nil || !ok || len(s.Data["key"]) != size {
			t.Fatal(errors.Join(err, errors.New("not the secret")))
		}
		metrics.Read(allocated)
		return allocated[0].Value.Uint64() - before
	}
	if got := bytesFor(ours); got < size || got > size+size/2 {
		t.Errorf("decoding an object of %d bytes allocates %d bytes", size, got)
	}
}
