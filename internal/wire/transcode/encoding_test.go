package transcode_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/transcode"
)

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "name", Namespace: "ns", UID: "u", Labels: map[string]string{"a": "b", "c": "d"}, Generation: 300},
		Data:       map[string]string{"a": "b", "c": strings.Repeat("d", 300)},
	}
}

// TestTargets sends an object in each form, with revisions of all lengths.
func TestTargets(t *testing.T) {
	for _, target := range []transcode.Target{transcode.ItemJSON, transcode.ObjectJSON, transcode.ItemProtobuf, transcode.ObjectProtobuf} {
		l := newTargetLane(t, target, rarely, "ConfigMap", &corev1.ConfigMap{})
		for _, obj := range []*corev1.ConfigMap{{}, configMap(), {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 119)}}, {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 200)}}} {
			l.sendTwice(t, obj)
		}
	}
}

// protoField is a protobuf field with a length.
func protoField(number protowire.Number, content string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), content))
}

// TestUnusualEncodingsAreLeftToKubernetes stores objects as Kubernetes' encoder would not
// have, in forms that a transcoder would have to normalize.
func TestUnusualEncodingsAreLeftToKubernetes(t *testing.T) {
	const meta, data = 1, 2
	name, namespace, generation := protoField(1, "name"), protoField(3, "ns"), "\x38\x07"
	a, c := protoField(1, "a")+protoField(2, "b"), protoField(1, "c")+protoField(2, "d")
	for reason, content := range map[string]string{
		"empty":                  "",
		"unknown field":          protoField(meta, name) + protoField(9, "x"),
		"unknown field inside":   protoField(meta, name+protoField(99, "x")),
		"fields out of order":    protoField(data, a) + protoField(meta, name),
		"out of order inside":    protoField(meta, namespace+name),
		"field twice":            protoField(meta, name) + protoField(meta, namespace),
		"field twice inside":     protoField(meta, name+name),
		"long number":            protoField(meta, name+"\x38\x87\x00"),
		"long tag":               protoField(meta, name+"\xb8\x00\x07"),
		"overflow":               protoField(meta, name+"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		"other wire type":        protoField(meta, name+protoField(7, "x")),
		"fixed number":           protoField(meta, name+"\x3d\x00\x00\x00\x00"),
		"group":                  protoField(meta, name) + "\x13\x14",
		"keys out of order":      protoField(meta, name) + protoField(data, c) + protoField(data, a),
		"key twice":              protoField(meta, name) + protoField(data, a) + protoField(data, a),
		"entry without key":      protoField(meta, name) + protoField(data, protoField(2, "b")),
		"entry without value":    protoField(meta, name) + protoField(data, protoField(1, "a")),
		"entry in wrong order":   protoField(meta, name) + protoField(data, protoField(2, "b")+protoField(1, "a")),
		"entry with more":        protoField(meta, name) + protoField(data, a+protoField(3, "x")),
		"length beyond the end":  protoField(meta, name) + "\x12\x09\x0a\x01a\x12\x01",
		"bool that is no bool":   protoField(meta, name) + "\x20\x02",
		"cut in a number":        protoField(meta, name+"\x38\x87"),
		"cut in a tag":           protoField(meta, name) + "\x92",
		"time without nanos":     protoField(meta, name+protoField(8, "\x08\x01")),
		"time with nanoseconds":  protoField(meta, name+protoField(8, "\x08\x01\x10\x01")),
		"managed fields no JSON": protoField(meta, name+protoField(17, protoField(7, protoField(1, "x")))),
	} {
		l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
		l.encode = func(object) []byte { return []byte("encoded") }
		if got := l.sendStored(t, envelope(t, content, nil), configMap()); got != "encoded" || l.proofs.Counts().Declined != 1 {
			t.Errorf("%s: got %s, %+v", reason, got, l.proofs.Counts())
		}
	}
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	l.encode = func(object) []byte {
		return []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"name","namespace":"ns","resourceVersion":"42","generation":7},"data":{"a":"b","c":"d"}}` + "\n")
	}
	usual := protoField(meta, name+namespace+generation) + protoField(data, a) + protoField(data, c)
	if l.sendStored(t, envelope(t, usual, nil), configMap()); l.proofs.Counts().Compared != 1 {
		t.Errorf("a usual object was not compared: %+v, %s", l.proofs.Counts(), l.log.String())
	}
}

// envelope puts an encoded object into Kubernetes' envelope.
func envelope(t *testing.T, content string, change func(*runtime.Unknown)) []byte {
	t.Helper()
	unknown := &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: []byte(content)}
	if change != nil {
		change(unknown)
	}
	encoded, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), encoded...)
}

// TestOtherEnvelopesAreLeftToKubernetes stores an object in envelopes of other kinds.
func TestOtherEnvelopesAreLeftToKubernetes(t *testing.T) {
	usual := protoField(1, protoField(1, "name"))
	good := envelope(t, usual, nil)
	for reason, stored := range map[string][]byte{
		"version":  envelope(t, usual, func(u *runtime.Unknown) { u.APIVersion = "v2" }),
		"kind":     envelope(t, usual, func(u *runtime.Unknown) { u.Kind = "ConfigMapp" }),
		"encoding": envelope(t, usual, func(u *runtime.Unknown) { u.ContentEncoding = "gzip" }),
		"type":     envelope(t, usual, func(u *runtime.Unknown) { u.ContentType = "application/json" }),
		"JSON":     []byte(`{"kind":"ConfigMap","apiVersion":"v1"}`),
		"cut":      good[:len(good)-1],
		"shorter":  good[:20],
		"longer":   append(append([]byte{}, good...), 0),
		"nothing":  {},
	} {
		l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
		if l.sendStored(t, stored, configMap()); l.proofs.Counts().Declined != 1 {
			t.Errorf("%s: %+v", reason, l.proofs.Counts())
		}
	}
}

// TestMissingFields stores an object without fields that Kubernetes always writes, as a
// version that did not have them. In JSON they are not missed; in protobuf they would be.
func TestMissingFields(t *testing.T) {
	stored := envelope(t, protoField(1, protoField(1, "name")), nil)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "name"}}
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for target, declined := range map[transcode.Target]int64{transcode.ObjectJSON: 0, transcode.ItemJSON: 0, transcode.ObjectProtobuf: 2, transcode.ItemProtobuf: 2} {
		l := newTargetLane(t, target, rarely, "ConfigMap", &corev1.ConfigMap{})
		for range 2 {
			if got, want := l.sendStored(t, stored, obj), l.wanted(t, obj); got != want {
				t.Errorf("target %d: got %q, want %q", target, got, want)
			}
		}
		if c := l.proofs.Counts(); c.Declined != declined || c.Different != 0 {
			t.Errorf("target %d: %+v", target, c)
		}
	}
}
