package transcode_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/transcode"
)

// object is a Kubernetes object with a Go type.
type object interface {
	runtime.Object
	metav1.Object
}

// lane sends objects of one kind through a transcoder to JSON. They have no defaults and no
// conversion, so encoding/json says what they look like.
type lane struct {
	kind       schema.GroupVersionKind
	proofs     *transcode.Proofs
	transcoder *transcode.Transcoder
	log        bytes.Buffer
	// encoded counts the objects that were encoded.
	encoded int
	// encode replaces encoding/json if it is set.
	encode func(object) []byte
}

func newLane(t *testing.T, sample int, kind string, empty runtime.Object) *lane {
	t.Helper()
	l := &lane{kind: corev1.SchemeGroupVersion.WithKind(kind)}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(l.kind, empty)
	tables, err := transcode.NewTables().Kind(scheme, l.kind)
	if err != nil {
		t.Fatal(err)
	}
	l.proofs = transcode.NewProofs(transcode.Config{Sample: sample, Logger: slog.New(slog.NewTextHandler(&l.log, nil))})
	l.transcoder = transcode.New(tables, transcode.ObjectJSON, "a form", l.proofs)
	return l
}

// stored is an object as etcd has it.
func (l *lane) stored(t *testing.T, obj object) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(l.kind)
	obj.SetResourceVersion("")
	var stored bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &stored); err != nil {
		t.Fatal(err)
	}
	return stored.Bytes()
}

// send sends an object, and returns what came out.
func (l *lane) send(t *testing.T, obj object) string {
	t.Helper()
	return l.sendStored(t, l.stored(t, obj), obj)
}

// sendStored sends stored bytes, and says that obj is what they decode to.
func (l *lane) sendStored(t *testing.T, stored []byte, obj object) string {
	t.Helper()
	e := &resource.Entry{Key: "ns/name", Revision: 42, Value: stored}
	got, err := l.transcoder.Append(nil, e, func(dst []byte) ([]byte, error) {
		l.encoded++
		if l.encode != nil {
			return append(dst, l.encode(obj)...), nil
		}
		return append(dst, wanted(t, obj)...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// wanted is an object as encoding/json writes it.
func wanted(t *testing.T, obj object) string {
	t.Helper()
	obj.SetResourceVersion("42")
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// sendTwice sends an object twice: to prove its fingerprint, and without the encoder. It
// fails if the second was encoded or is not what encoding/json writes.
func (l *lane) sendTwice(t *testing.T, obj object) {
	t.Helper()
	l.send(t, obj)
	before := l.encoded
	got, want := l.send(t, obj), wanted(t, obj)
	if l.encoded != before {
		t.Errorf("%s was encoded: %+v, %s", want, l.proofs.Counts(), l.log.String())
	}
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// rarely is a sample that no test reaches.
const rarely = 1 << 30

func fieldsOf(raw string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(raw))
	return f
}
