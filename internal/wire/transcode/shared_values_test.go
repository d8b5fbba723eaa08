package transcode_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/wire/transcode"
)

// replica is pod i of a workload: its containers are those of the others, and its name is
// not.
func replica(i, workload int) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.Name = fmt.Sprintf("pod-%d-%d", workload, i)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("set-", workload), UID: "0123456789"}}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fmt.Sprint("manager-", i), FieldsV1: fieldsOf(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{}}}`)}}
		for n := range p.Spec.Containers {
			c := &p.Spec.Containers[n]
			c.Env = append(c.Env, corev1.EnvVar{Name: "WORKLOAD", Value: strings.Repeat("<x>", 40+workload)})
		}
		p.Spec.InitContainers = p.Spec.Containers[:1]
		p.Status.Message = strings.Repeat("m", 1+i%100)
	})
}

// TestSharedValuesAreWrittenAlike sends pods of several workloads in turn, from several
// goroutines: values that come again are those of other objects, or of other fields.
func TestSharedValuesAreWrittenAlike(t *testing.T) {
	for _, target := range []transcode.Target{transcode.ItemJSON, transcode.ObjectJSON, transcode.ItemProtobuf, transcode.ObjectProtobuf} {
		l := newTargetLane(t, target, rarely, "Pod", &corev1.Pod{})
		var values [120][]byte
		var texts [120]string
		for i := range values {
			p := replica(i, i%3)
			values[i] = l.stored(t, p)
			texts[i] = l.wanted(t, p)
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for i := range 6 * len(values) {
					i %= len(values)
					got, err := l.transcoder.Append(nil, storedEntry(values[i]), func(dst []byte) ([]byte, error) { return append(dst, texts[i]...), nil })
					if err != nil || string(got) != texts[i] {
						t.Errorf("got %s, %v, want %s", got, err, texts[i])
						return
					}
				}
			})
		}
		group.Wait()
		if c := l.proofs.Counts(); c.Different+c.Refuted+c.Declined > 0 || c.Transcoded < 100*c.Compared/4 {
			t.Errorf("target %d: %+v", target, c)
		}
	}
}

// TestSharedValuesAreNotConfused sends objects whose values have the same bytes in different
// fields, and values of all lengths around the bounds.
func TestSharedValuesAreNotConfused(t *testing.T) {
	seventy := strings.Repeat("x", 0x46)
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	l := newLane(t, rarely, "Pod", &corev1.Pod{})
	for round := range 3 {
		for size := 1; size < 10_000; size += 1 + size/7 {
			text := strings.Repeat("a", size)
			for _, change := range []func(*corev1.Pod){
				func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{text} },
				func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{text} },
				func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{text, text} },
				func(p *corev1.Pod) { p.Annotations = map[string]string{"k": text} },
				func(p *corev1.Pod) { p.Labels = map[string]string{"k": text} },
				volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: seventy}}}),
				// Its protobuf is that of the volume above.
				volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "\n\x46" + seventy}}),
			} {
				l.sendTwice(t, pod(change))
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// TestManySharedValues sends more values again than are kept.
func TestManySharedValues(t *testing.T) {
	l := newLane(t, rarely, "Pod", &corev1.Pod{})
	for i := range 3000 {
		p := pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"k": fmt.Sprint(i, strings.Repeat("<", 2000))} })
		stored, want := l.stored(t, p), wanted(t, p)
		for range 3 {
			if got := l.sendStored(t, stored, p); got != want {
				t.Fatalf("pod %d: got %s, want %s", i, got, want)
			}
		}
	}
}

// TestMeasuredObjects measures protobuf, and writes it by what was measured.
func TestMeasuredObjects(t *testing.T) {
	for _, target := range []transcode.Target{transcode.ItemProtobuf, transcode.ObjectProtobuf} {
		l := newTargetLane(t, target, rarely, "Pod", &corev1.Pod{})
		first := replica(0, 0)
		if _, _, ok := l.transcoder.Measure(storedEntry(l.stored(t, first))); ok {
			t.Error("measured before it was proven")
		}
		l.send(t, first)
		for i := range 200 {
			p := replica(i, i%3)
			e, want := storedEntry(l.stored(t, p)), l.wanted(t, p)
			size, fingerprint, ok := l.transcoder.Measure(e)
			if !ok || size != len(want) {
				t.Fatalf("pod %d: %d bytes, %v, want %d", i, size, ok, len(want))
			}
			got, err := l.transcoder.AppendMeasured([]byte("x"), e, fingerprint, func([]byte) ([]byte, error) { t.Error("encoded"); return nil, nil })
			if err != nil || string(got) != "x"+want {
				t.Fatalf("pod %d: got %q, %v, want %q", i, got, err, want)
			}
		}
	}
	l := newLane(t, rarely, "Pod", &corev1.Pod{})
	l.sendTwice(t, replica(0, 0))
	if _, _, ok := l.transcoder.Measure(storedEntry(l.stored(t, replica(0, 0)))); ok {
		t.Error("JSON was measured")
	}
}

// TestMeasuredObjectsAreCompared has Kubernetes change its mind after objects were measured.
func TestMeasuredObjectsAreCompared(t *testing.T) {
	const sample = 8
	l := newTargetLane(t, transcode.ItemProtobuf, sample, "Pod", &corev1.Pod{})
	l.send(t, replica(0, 0))
	e := storedEntry(l.stored(t, replica(1, 0)))
	_, fingerprint, ok := l.transcoder.Measure(e)
	if !ok {
		t.Fatal("not measured")
	}
	other := func(dst []byte) ([]byte, error) { return append(dst, "other"...), nil }
	for i := 0; l.proofs.Counts().Different == 0; i++ {
		if i > surely*sample {
			t.Fatalf("not found in %d objects", i)
		}
		if _, err := l.transcoder.AppendMeasured(nil, e, fingerprint, other); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := l.transcoder.AppendMeasured(nil, e, fingerprint, other); string(got) != "other" {
		t.Errorf("sent %q", got)
	}
}
