package apifeed_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// encoded returns an object in protobuf, as a server sends and stores it.
func encoded(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func pod(name string, rv int, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", ResourceVersion: fmt.Sprint(rv), Annotations: annotations, Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
}

// framed returns an event of a watch in protobuf.
func framed(t *testing.T, kind string, obj runtime.Object) string {
	t.Helper()
	event, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: encoded(t, obj)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := protobuf.LengthDelimitedFramer.NewFrameWriter(&out).Write(event); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestProtobuf loads and follows objects in protobuf: the sink gets them as etcd would
// have them, from lists too.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	a, b := pod("a", 4, nil), pod("b", 5, map[string]string{"k8s.io/initial-events-end": "false"})
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*a, *b},
	}
	end := &corev1.Pod{TypeMeta: a.TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	gone := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone}
	add := func(p *corev1.Pod) string {
		return fmt.Sprintf("add /registry/x/widgets/ns/%s %s %s", p.Name, p.ResourceVersion, encoded(t, p))
	}
	t.Run("watch-list", func(t *testing.T) {
		t.Parallel()
		_, sink, _ := runWith(t, true,
			step{body: framed(t, "ADDED", a) + framed(t, "ADDED", b) + framed(t, "BOOKMARK", end) + framed(t, "ERROR", gone)},
			step{query: []string{"sendInitialEvents"}, body: framed(t, "BOOKMARK", end), hold: true},
		)
		sink.expect(t, "begin", add(a), add(b), "end 9", "begin", "end 9")
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		_, sink, _ := runWith(t, true,
			step{status: http.StatusBadRequest},
			step{body: string(encoded(t, list))},
			step{query: []string{"resourceVersion=7"}, body: framed(t, "DELETED", pod("a", 8, nil)), hold: true},
		)
		sink.expect(t, "begin", add(a), add(b), "end 7", "DELETE /registry/x/widgets/ns/a 8 ")
	})
	t.Run("malformed", func(t *testing.T) {
		t.Parallel()
		_, sink, _ := runWith(t, true,
			step{body: "\x00\x00\x00\x05abcde"},
			step{query: []string{"sendInitialEvents"}, body: "\xff\xff\xff\xff"},
			step{query: []string{"sendInitialEvents"}, body: framed(t, "BOOKMARK", end), hold: true},
		)
		sink.expect(t, "begin", "begin", "begin", "end 9")
	})
}
