package watchevent_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// envelope encodes an object as Kubernetes does.
func envelope(t *testing.T, raw []byte) []byte {
	t.Helper()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), body...)
}

func testPod(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("p", i), ResourceVersion: fmt.Sprint(100 + i),
		Annotations: map[string]string{"text": strings.Repeat(`"resourceVersion":"1" \ {`, i*40)},
	}}
}

// streams returns the same events in both forms.
func streams(t *testing.T) map[watchevent.Form][]byte {
	t.Helper()
	var asJSON, asProtobuf []byte
	kinds := []string{watchevent.Added, watchevent.Modified, watchevent.Deleted, watchevent.Bookmark}
	for i, kind := range kinds {
		pod := testPod(i)
		if kind == watchevent.Bookmark {
			pod.Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
		}
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		asJSON = append(asJSON, fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, text)...)
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: envelope(t, raw)}}
		if raw, err = event.Marshal(); err != nil {
			t.Fatal(err)
		}
		asProtobuf = append(binary.BigEndian.AppendUint32(asProtobuf, uint32(len(raw))), raw...)
	}
	return map[watchevent.Form][]byte{watchevent.JSON: asJSON, watchevent.Protobuf: asProtobuf}
}

// Events are found however their bytes arrive.
func TestEventsInPieces(t *testing.T) {
	const want = "ADDED 100 false, MODIFIED 101 false, DELETED 102 false, BOOKMARK 103 true"
	for form, stream := range streams(t) {
		for _, size := range []int{1, 2, 3, 7, 100, 1000, len(stream)} {
			var got []string
			reader := watchevent.Reader{Form: form}
			for rest := stream; len(rest) > 0; {
				piece := bytes.Clone(rest[:min(size, len(rest))])
				rest = rest[len(piece):]
				err := reader.Feed(piece, func(e *watchevent.Event) {
					got = append(got, fmt.Sprintf("%s %s %v", e.Type, e.Revision, e.EndsInitial()))
					if form == watchevent.Protobuf {
						var pod corev1.Pod
						if err := pod.Unmarshal(e.Object); err != nil || pod.ResourceVersion != string(e.Revision) {
							t.Errorf("decode object: %v, revision %s", err, pod.ResourceVersion)
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				clear(piece) // the reader must not keep it
			}
			if s := strings.Join(got, ", "); s != want {
				t.Errorf("form %d in pieces of %d: %s", form, size, s)
			}
		}
	}
}

func TestBrokenEvents(t *testing.T) {
	for _, text := range []string{"{}\n", "x\n", `{"type":"STRANGE"}` + "\n"} {
		reader := watchevent.Reader{}
		if err := reader.Feed([]byte(text), func(*watchevent.Event) {}); err == nil {
			t.Errorf("%q is taken to be an event", text)
		}
	}
}

// The position of a list is found in its first bytes, or in its last ones.
func TestListPosition(t *testing.T) {
	items := strings.Repeat(`{"metadata":{"name":"a","resourceVersion":"9"}},`, 300)
	builtIn := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc"},"items":[` + items
	custom := `{"apiVersion":"v1","items":[` + items + `{}],"kind":"MillList","metadata":{"continue":"abc","resourceVersion":"7"}}` + "\n"
	list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "abc"}, Items: []corev1.Pod{*testPod(1), *testPod(2)}}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	protobuf := envelope(t, raw)
	for name, c := range map[string]struct {
		form watchevent.Form
		body []byte
	}{"built-in": {watchevent.JSON, []byte(builtIn)}, "custom": {watchevent.JSON, []byte(custom)}, "protobuf": {watchevent.Protobuf, protobuf}} {
		head, tail := c.body[:min(200, len(c.body))], c.body[max(0, len(c.body)-150):]
		if revision, token := watchevent.ListPosition(c.form, head, tail); revision != "7" || token != "abc" {
			t.Errorf("%s: revision %q, continue %q", name, revision, token)
		}
	}
}

// Texts that are cut off anywhere have no members that are not there.
func TestMemberOfCutText(t *testing.T) {
	const text = `{"a": "x\"y", "b": [1, {"c": "}"}], "d": {"e": "f"}, "g": -1.5, "h": "i"}`
	for end := range len(text) - 1 {
		if value := watchevent.Text(watchevent.Member([]byte(text[:end]), "h")); value != nil {
			t.Errorf("cut at %d: h is %s", end, value)
		}
	}
	if value := watchevent.Text(watchevent.Member([]byte(text), "h")); string(value) != "i" {
		t.Errorf("h is %q", value)
	}
	if value := watchevent.Text(watchevent.Member(watchevent.Member([]byte(text), "d"), "e")); string(value) != "f" {
		t.Errorf("d.e is %q", value)
	}
}
