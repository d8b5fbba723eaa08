package watchcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func read(t *testing.T, content, contentType string) (frames []Frame, raw string, end error) {
	t.Helper()
	r, err := NewReader(strings.NewReader(content), contentType)
	if err != nil {
		t.Fatal(err)
	}
	for {
		bytesOf, f, err := r.Next()
		if err != nil {
			return frames, raw, err
		}
		frames, raw = append(frames, f), raw+string(bytesOf)
	}
}

func describe(frames []Frame) string {
	var out []string
	for i := range frames {
		out = append(out, frames[i].String())
	}
	return strings.Join(out, "; ")
}

func TestReadJSON(t *testing.T) {
	content := `{"type":"ADDED","object":{"kind":"Pod","metadata":{"namespace":"ns","name":"a","resourceVersion":"7","labels":{"app":"web"}}}}
{"type":"MODIFIED","object":{"kind":"Table","metadata":{"resourceVersion":"8"},"rows":[{"cells":["b"],"object":{"metadata":{"name":"b","resourceVersion":"8"}}}]}}
{"type":"DELETED","object":{"kind":"Table","metadata":{"resourceVersion":"9"},"rows":[{"cells":["b"],"object":null}]}}
{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`
	frames, raw, end := read(t, content+"\n", "application/json")
	if want := "ADDED ns/a 7; MODIFIED b 8; DELETED  9; BOOKMARK 10 (end of initial events); ERROR 410 Expired: too old"; describe(frames) != want {
		t.Errorf("frames are %s, want %s", describe(frames), want)
	}
	if raw != content || end != io.EOF || frames[0].Labels["app"] != "web" || !frames[2].Opaque || frames[1].Opaque {
		t.Errorf("end %v, frames %+v, bytes %q", end, frames, raw)
	}
	if _, _, end := read(t, content[:len(content)-3], "application/json"); !errors.Is(end, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is cut off ends with %v", end)
	}
}

func TestReadProtobuf(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "7", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "n"}}
	gone := &metav1.Status{Code: 410, Reason: "Expired"}
	var content bytes.Buffer
	content.Write(protobufFrame(t, Added, pod))
	content.Write(protobufFrame(t, Error, gone))
	frames, raw, end := read(t, content.String(), "application/vnd.kubernetes.protobuf;stream=watch")
	if want := "ADDED ns/a 7; ERROR 410 Expired: "; describe(frames) != want || end != io.EOF || raw != content.String() || frames[0].Labels["app"] != "web" {
		t.Errorf("frames are %s, want %s, end %v", describe(frames), want, end)
	}
	if _, _, end := read(t, content.String()[:content.Len()-1], "application/vnd.kubernetes.protobuf"); !errors.Is(end, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is cut off ends with %v", end)
	}
}

func protobufFrame(t *testing.T, kind string, object interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	marshal := func(o interface{ Marshal() ([]byte, error) }) []byte {
		content, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	inner := append([]byte("k8s\x00"), marshal(&runtime.Unknown{Raw: marshal(object)})...)
	outer := marshal(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inner}})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(outer))), outer...)
}
