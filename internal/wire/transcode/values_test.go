package transcode_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/wire/transcode"
)

// TestTextsAreEscapedAsInKubernetes sends each byte and many runes, alone and between others.
func TestTextsAreEscapedAsInKubernetes(t *testing.T) {
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	var texts []string
	for b := range 256 {
		texts = append(texts, string([]byte{byte(b)}), "0123456"+string([]byte{byte(b)})+"89abcdefgh", strings.Repeat("é", 9)+string([]byte{byte(b)}))
	}
	for _, r := range []rune{0x7f, 0x80, 0x7ff, 0x800, 0x2027, 0x2028, 0x2029, 0x202a, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x10ffff} {
		texts = append(texts, string(r), "<a href=\"x\">&amp;"+string(r)+"</a>")
	}
	texts = append(texts, "\xe2\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "")
	for _, text := range texts {
		l.sendTwice(t, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: text, Annotations: map[string]string{"key" + text: text}, Finalizers: []string{text, "other"}},
			BinaryData: map[string][]byte{"a": []byte(text), "b": {}},
		})
	}
}

// TestTimes sends times of days around leap days and of all precisions.
func TestTimes(t *testing.T) {
	l := newLane(t, rarely, "Event", &corev1.Event{})
	times := []time.Time{{}, time.Unix(0, 0), time.Unix(1, 0), time.Unix(253402300799, 999999000)}
	for _, year := range []int{1970, 1972, 1999, 2000, 2001, 2024, 2026, 2099, 2100, 2101, 2400, 9999} {
		for _, day := range []time.Duration{0, 30, 31, 57, 58, 59, 60, 61, 89, 90, 180, 300, 333, 334, 363, 364, 365} {
			times = append(times, time.Date(year, 1, 1, int(day)%24, int(day)%60, 59, 123456000, time.UTC).Add(day*24*time.Hour))
		}
	}
	for _, at := range times {
		if at.Year() > 9999 {
			continue
		}
		l.sendTwice(t, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at), DeletionTimestamp: &metav1.Time{Time: at.Truncate(time.Second)}},
			EventTime:      metav1.NewMicroTime(at),
			FirstTimestamp: metav1.NewTime(at.Truncate(time.Second)),
		})
	}
}

// TestUnusualTimesAreEncoded sends times that are left to Kubernetes.
func TestUnusualTimesAreEncoded(t *testing.T) {
	l := newLane(t, rarely, "Event", &corev1.Event{})
	for _, at := range []time.Time{time.Unix(-1, 0), time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)} {
		l.send(t, &corev1.Event{EventTime: metav1.NewMicroTime(at)})
	}
	if c := l.proofs.Counts(); c.Declined != 3 {
		t.Errorf("%+v", c)
	}
}

// TestNumbers sends numbers at their limits, and numbers or texts.
func TestNumbers(t *testing.T) {
	l := newLane(t, rarely, "Service", &corev1.Service{})
	for _, n := range []int32{0, 1, -1, math.MaxInt32, math.MinInt32, 80} {
		for _, target := range []intstr.IntOrString{intstr.FromInt32(n), intstr.FromString("http"), intstr.FromString("")} {
			l.sendTwice(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Generation: int64(n) * math.MaxInt32},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: n, TargetPort: target}}, PublishNotReadyAddresses: n > 0},
			})
		}
	}
}

// TestQuantities sends quantities: usual ones are transcoded, and no others in a way that is
// not Kubernetes'.
func TestQuantities(t *testing.T) {
	l := newLane(t, rarely, "Node", &corev1.Node{})
	node := func(q resource.Quantity) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": q, "memory": q}}}
	}
	for _, text := range []string{"0", "1", "999", "100m", "1500m", "2k", "128Mi", "3Gi", "16384Ki", "1025Ki", "1e3", "12345678901", "263478568Ki", "4T", "1Ei", "-1", "-100m", "9223372036854775807"} {
		l.sendTwice(t, node(resource.MustParse(text)))
	}
	for _, text := range []string{"1u", "5n", "0.1", "1000", "1024Ki", "0.5Gi", "1.5", "01", "+1", "1000m", "100000000000000000000"} {
		l.send(t, node(resource.MustParse(text)))
	}
	if c := l.proofs.Counts(); c.Different != 0 {
		t.Errorf("%+v %s", c, l.log.String())
	}
}

// TestQuantitiesThatAreNotCanonical stores texts that Kubernetes writes in another way, or
// cannot read, and two that it keeps though it would not write them by itself.
func TestQuantitiesThatAreNotCanonical(t *testing.T) {
	l := newLane(t, rarely, "Node", &corev1.Node{})
	send := func(text string) (declined bool) {
		long := strings.Repeat("2", len(text)-1) + "k"
		obj := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse(long)}}}
		changed := bytes.Replace(l.stored(t, obj), []byte(long), []byte(text), 1)
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(changed[len("k8s\x00"):]); err != nil {
			t.Fatal(err)
		}
		decoded := &corev1.Node{}
		_ = decoded.Unmarshal(envelope.Raw) // What cannot be read must be declined.
		decoded.SetGroupVersionKind(l.kind)
		before := l.proofs.Counts().Declined
		l.sendStored(t, changed, decoded)
		return l.proofs.Counts().Declined > before
	}
	for _, text := range []string{"2000m", "1024K", "1000k", "0.5Ki", "1000u", "2000n", "     ", "1024i", "0.0001", "0.00000001"} {
		if !send(text) {
			t.Errorf("%q was not declined", text)
		}
	}
	for _, text := range []string{"00001", "1e+03", "2222k"} {
		send(text)
	}
	if c := l.proofs.Counts(); c.Different != 0 {
		t.Errorf("%+v %s", c, l.log.String())
	}
}

// TestRawJSON stores JSON in managed fields: what encoding/json would copy is copied.
func TestRawJSON(t *testing.T) {
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	send := func(raw string) {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: fieldsOf(raw)}}}}
		stored := l.stored(t, obj)
		l.encode = func(obj object) []byte {
			defer func() { _ = recover() }()
			return []byte(wanted(t, obj))
		}
		l.sendStored(t, stored, obj)
	}
	copied := []string{`{}`, `{"f:a":{}}`, `{"f:a":{"k:{\"b\":\"c\"}":{".":{},"f:d":{}}}}`, `{"a":[],"b":[1,-2.5e+10,0,0.1E-3],"c":"é\u0041\n","d":[true,false,null,{"e":{}}]}`, `{"":[[[{}]]]}`}
	for _, raw := range copied {
		send(raw)
	}
	if c := l.proofs.Counts(); c.Declined+c.Different != 0 {
		t.Errorf("%+v %s", c, l.log.String())
	}
	left := []string{
		`[]`, `{`, `{}}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":+1}`, `{ }`, `{"a": 1}`,
		`{"a":"<"}`, `{"a":"&"}`, "{\"a\":\"\u2028\"}", `{"a":"\x"}`, `{"a":"\u00g0"}`, `{"a":"\u00`, "{\"a\":\"\n\"}", `{"a":tru}`, `{"a":nulll}`, `{"a":[}`, `{"a":{]}`,
		`{"a":1]`, `{"a":[1}}`, `{"a":[1 2]}`, `{a:1}`, `{"a":"b}`, `"a"`, `null`, strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
	}
	for _, raw := range left {
		before := l.proofs.Counts().Declined
		if func() { defer func() { _ = recover() }(); sendUnchecked(t, l, raw) }(); l.proofs.Counts().Declined != before+1 {
			t.Errorf("%s was not left to Kubernetes", raw)
		}
	}
}

// sendUnchecked sends an object with managed fields that encoding/json may refuse.
func sendUnchecked(t *testing.T, l *lane, raw string) {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: fieldsOf(raw)}}}}
	l.encode = func(object) []byte { return nil }
	l.sendStored(t, l.stored(t, obj), obj)
}

// TestListsThatAreMessages sends lists of strings that protobuf has as messages.
func TestListsThatAreMessages(t *testing.T) {
	for _, target := range []transcode.Target{transcode.ObjectJSON, transcode.ObjectProtobuf} {
		l := newTargetLane(t, target, rarely, "CertificateSigningRequest", &certificatesv1.CertificateSigningRequest{})
		for _, extra := range []map[string]certificatesv1.ExtraValue{nil, {"a": {"b"}}, {"a": {"", "<"}, "c": {"d"}}, {"a": {}}} {
			l.sendTwice(t, &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: []byte("r"), Extra: extra}})
		}
	}
}

// TestEmptyValues sends lists, maps and structs that are nil, empty or zero.
func TestEmptyValues(t *testing.T) {
	l := newLane(t, rarely, "Pod", &corev1.Pod{})
	no, zero, empty := false, int64(0), ""
	for i, obj := range []*corev1.Pod{
		{},
		{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}},
		{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{}, {ValueFrom: &corev1.EnvVarSource{}}}}}}},
		{Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &zero, SecurityContext: &corev1.PodSecurityContext{}}},
		{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "a"}, {VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}, RuntimeClassName: &empty}},
		{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{}}, ContainerStatuses: []corev1.ContainerStatus{{}}}},
	} {
		l.sendTwice(t, obj)
		if t.Failed() {
			t.Fatal(fmt.Sprint(i))
		}
	}
}
