package transcode_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// object is a Kubernetes object with a Go type.
type object interface {
	runtime.Object
	metav1.Object
}

// lane sends objects of one kind through a transcoder. They have no defaults and no
// conversion, so encoding/json and their own Marshal say what they look like.
type lane struct {
	target     transcode.Target
	kind       schema.GroupVersionKind
	tables     *transcode.Kind
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
	return newTargetLane(t, transcode.ObjectJSON, sample, kind, empty)
}

func newTargetLane(t *testing.T, target transcode.Target, sample int, kind string, empty runtime.Object) *lane {
	t.Helper()
	l := &lane{target: target, kind: corev1.SchemeGroupVersion.WithKind(kind)}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(l.kind, empty)
	var err error
	if l.tables, err = transcode.NewTables().Kind(scheme, l.kind); err != nil {
		t.Fatal(err)
	}
	l.proofs = transcode.NewProofs(transcode.Config{Sample: sample, Logger: slog.New(slog.NewTextHandler(&l.log, nil))})
	l.transcoder = transcode.New(l.tables, target, "a form", l.proofs, nil)
	return l
}

// shareProofs gives a lane the proofs of another one, as all forms of a process share them.
func (l *lane) shareProofs(t *testing.T, other *lane) {
	t.Helper()
	l.proofs = other.proofs
	l.transcoder = transcode.New(l.tables, l.target, "another form", l.proofs, nil)
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
	e := &entry.Entry{Key: "ns/name", Revision: 42, Value: stored}
	got, err := l.transcoder.Append(nil, e, func(dst []byte) ([]byte, error) {
		l.encoded++
		if l.encode != nil {
			return append(dst, l.encode(obj)...), nil
		}
		return append(dst, l.wanted(t, obj)...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// wanted is an object as Kubernetes writes it for the lane's target.
func (l *lane) wanted(t *testing.T, obj object) string {
	t.Helper()
	if l.target == transcode.ObjectJSON {
		return wanted(t, obj)
	}
	if l.target == transcode.ItemJSON {
		kind := obj.GetObjectKind().GroupVersionKind()
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		defer obj.GetObjectKind().SetGroupVersionKind(kind)
		return strings.TrimSuffix(wanted(t, obj), "\n")
	}
	obj.SetResourceVersion("42")
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &encoded); err != nil {
		t.Fatal(err)
	}
	if l.target == transcode.ObjectProtobuf {
		return encoded.String()
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(encoded.Bytes()[len("k8s\x00"):]); err != nil {
		t.Fatal(err)
	}
	const items = 2
	return string(protowire.AppendBytes(protowire.AppendTag(nil, items, protowire.BytesType), envelope.Raw))
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
	got, want := l.send(t, obj), l.wanted(t, obj)
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
