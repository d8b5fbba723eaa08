package sentobject

import (
	"bytes"
	"maps"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// encoded is an object as Kubernetes' encoder sends it alone.
func encoded(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func pod(revision string, labels, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "1-2", ResourceVersion: revision, Labels: labels, Annotations: annotations},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
}

// TestProtobuf rewrites the resource versions of objects, lists and bookmarks, and compares
// the results with what Kubernetes' encoder writes.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "web", "empty": ""}
	was, is := encoded(t, pod("7", labels, nil)), encoded(t, pod("1234567", labels, nil))
	o, ok := Read(Protobuf, was)
	if !ok || o.Revision() != 7 {
		t.Fatalf("revision %d, %v", o.Revision(), ok)
	}
	if got := o.Append(nil, 7); !bytes.Equal(got, was) {
		t.Errorf("got  %q\nwant %q", got, was)
	}
	if got := o.Append(nil, 1234567); !bytes.Equal(got, is) {
		t.Errorf("got  %q\nwant %q", got, is)
	}
	read, uid, ok := o.Attributes()
	if !ok || !maps.Equal(read, labels) || string(uid) != "1-2" {
		t.Errorf("labels %v, UID %q, %v", read, uid, ok)
	}
	// A list of one is an empty list with the item in it.
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "55"}}
	empty, ok := ReadEmptyList(Protobuf, encoded(t, list))
	if !ok || empty.Revision() != 55 {
		t.Fatalf("an empty list: revision %d, %v", empty.Revision(), ok)
	}
	list.ResourceVersion = "99999"
	if got, want := empty.Append(nil, 99999), encoded(t, list); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	item := *pod("1234567", labels, nil)
	item.TypeMeta = metav1.TypeMeta{}
	list.Items = append(list.Items, item)
	if got := o.AppendItem(nil, 1234567); !bytes.Contains(encoded(t, list), got) || len(got) < 40 {
		t.Errorf("the item %q is not in %q", got, encoded(t, list))
	}
	if _, ok := ReadEmptyList(Protobuf, encoded(t, list)); ok {
		t.Error("a list of one is empty")
	}
	ends := encoded(t, pod("7", nil, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	if got, want := WithoutInitialEventsEnd(Protobuf, ends), encoded(t, pod("7", nil, nil)); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if WithoutInitialEventsEnd(Protobuf, was) != nil || WithoutInitialEventsEnd(Protobuf, encoded(t, pod("7", nil, map[string]string{"a": "true"}))) != nil {
		t.Error("another object ends initial events")
	}
}

// TestProtobufKeepsUnknownFields rewrites an object with fields that no type here knows.
func TestProtobufKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	var metadata []byte
	metadata = protowire.AppendString(protowire.AppendTag(metadata, 6, protowire.BytesType), "9")
	metadata = protowire.AppendVarint(protowire.AppendTag(metadata, 900, protowire.VarintType), 5)
	object := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), metadata)
	object = protowire.AppendFixed64(protowire.AppendTag(object, 901, protowire.Fixed64Type), 6)
	message := func(object []byte) []byte {
		return append(protowire.AppendBytes(protowire.AppendTag([]byte("k8s\x00"), 2, protowire.BytesType), object), 0x1a, 0, 0x22, 0)
	}
	o, ok := Read(Protobuf, message(object))
	if !ok {
		t.Fatal("the object is refused")
	}
	want := bytes.Replace(message(object), []byte("\x32\x019"), []byte("\x32\x018"), 1)
	if got := o.Append(nil, 8); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// FuzzRead reads damaged objects, which must neither panic nor be read beyond their end.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"},"spec":{}}`))
	f.Add([]byte("k8s\x00\x12\x05\x0a\x03\x32\x017"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, format := range []Format{JSON, Protobuf} {
			if o, ok := Read(format, data); ok {
				o.AppendItem(o.Append(nil, 5), o.Revision())
				if format == Protobuf {
					_, _, _ = o.Attributes()
				}
			}
			ReadEmptyList(format, data)
			WithoutInitialEventsEnd(format, data)
		}
	})
}
