package transcode_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace/millrace/internal/wire/transcode"
)

// partialOf is an object's metadata as Kubernetes writes it for a target.
func partialOf(t *testing.T, target transcode.Target, version string, obj *corev1.Pod) string {
	t.Helper()
	obj.ResourceVersion = "42"
	partial := &metav1.PartialObjectMetadata{ObjectMeta: obj.ObjectMeta}
	partial.APIVersion, partial.Kind = "meta.k8s.io/"+version, "PartialObjectMetadata"
	switch target {
	case transcode.ItemJSON, transcode.ObjectJSON:
		text, err := json.Marshal(partial)
		if err != nil {
			t.Fatal(err)
		}
		if target == transcode.ObjectJSON {
			text = append(text, '\n')
		}
		return string(text)
	case transcode.ItemProtobuf:
		content, err := partial.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		const items = 2
		return string(protowire.AppendBytes(protowire.AppendTag(nil, items, protowire.BytesType), content))
	}
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(partial, &encoded); err != nil {
		t.Fatal(err)
	}
	return encoded.String()
}

// TestMetadataAlone sends the metadata of pods. Each fingerprint is encoded once.
func TestMetadataAlone(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		for _, target := range []transcode.Target{transcode.ItemJSON, transcode.ObjectJSON, transcode.ItemProtobuf, transcode.ObjectProtobuf} {
			l := newTargetLane(t, target, rarely, "Pod", &corev1.Pod{})
			kind, err := l.tables.Metadata(version)
			if err != nil {
				t.Fatal(err)
			}
			l.transcoder = transcode.New(kind, target, "metadata", l.proofs, nil)
			for i := range 20 {
				p := replica(i, i%3)
				stored := l.stored(t, p)
				want := partialOf(t, target, version, p)
				l.encode = func(object) []byte { return []byte(want) }
				if got := l.sendStored(t, stored, p); got != want {
					t.Fatalf("target %d: got %q, want %q", target, got, want)
				}
			}
			if l.encoded != 1 {
				t.Errorf("target %d, %s: %d of 20 were encoded: %+v", target, version, l.encoded, l.proofs.Counts())
			}
		}
	}
}

// TestMetadataDependsOnTheWholeObject sends objects that differ elsewhere: defaulting may take
// labels from there.
func TestMetadataDependsOnTheWholeObject(t *testing.T) {
	l := newLane(t, rarely, "Pod", &corev1.Pod{})
	kind, err := l.tables.Metadata("v1")
	if err != nil {
		t.Fatal(err)
	}
	l.transcoder = transcode.New(kind, l.target, "metadata", l.proofs, nil)
	for _, p := range []*corev1.Pod{pod(func(*corev1.Pod) {}), pod(func(p *corev1.Pod) { p.Spec.Containers[1].WorkingDir = "/" })} {
		stored := l.stored(t, p)
		want := partialOf(t, l.target, "v1", p)
		l.encode = func(object) []byte { return []byte(want) }
		l.sendStored(t, stored, p)
	}
	if l.encoded != 2 {
		t.Errorf("%d of 2 were encoded", l.encoded)
	}
}
