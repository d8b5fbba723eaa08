package transcode_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/wire/transcode"
)

// wrongName is a ConfigMap with a wrong name in its table.
type wrongName struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Data              map[string]string `json:"dataa,omitempty" protobuf:"bytes,2,rep,name=data"`
	BinaryData        map[string][]byte `json:"binaryData,omitempty" protobuf:"bytes,3,rep,name=binaryData"`
	Immutable         *bool             `json:"immutable,omitempty" protobuf:"varint,4,opt,name=immutable"`
}

func (r *wrongName) DeepCopyObject() runtime.Object { return nil }

// wrongOption is a ConfigMap with a wrong table: one field is not left out when it is empty.
type wrongOption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Immutable         *bool             `json:"immutable,omitempty" protobuf:"varint,4,opt,name=immutable"`
	Data              map[string]string `json:"data,omitempty" protobuf:"bytes,2,rep,name=data"`
	BinaryData        map[string][]byte `json:"binaryData" protobuf:"bytes,3,rep,name=binaryData"`
}

func (u *wrongOption) DeepCopyObject() runtime.Object { return nil }

// TestWrongTablesSendNothing uses tables with a mistake. Objects that meet the mistake are
// encoded, each of them, and the place of the difference is logged without values.
func TestWrongTablesSendNothing(t *testing.T) {
	for name, empty := range map[string]runtime.Object{"dataa": &wrongName{}, "binaryData": &wrongOption{}} {
		l := newLane(t, rarely, "ConfigMap", empty)
		for i := range 100 {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("name-", i)}, Data: map[string]string{"password": "secret"}}
			if got, want := l.send(t, obj), wanted(t, obj); got != want {
				t.Fatalf("%s: got %s, want %s", name, got, want)
			}
		}
		if c := l.proofs.Counts(); l.encoded != 100 || c.Different != 1 || c.Refuted != 99 || c.Transcoded != 0 {
			t.Errorf("%s: %+v, %d encoded", name, c, l.encoded)
		}
		if log := l.log.String(); strings.Contains(log, "secret") || !strings.Contains(log, "ns/name") {
			t.Errorf("%s: logged %s", name, log)
		}
	}
}

// surely is how many times more objects than a sample are sent for one to be compared.
const surely = 50

// TestLaterDifferenceStopsTheForm proves objects and then has Kubernetes' encoder change its
// mind, as a table would that is wrong for values. One in sample objects finds it, and from
// then on all are encoded.
func TestLaterDifferenceStopsTheForm(t *testing.T) {
	const sample = 16
	l := newLane(t, sample, "ConfigMap", &corev1.ConfigMap{})
	obj := &corev1.ConfigMap{Data: map[string]string{"a": "secret"}}
	for range 3 * sample {
		l.send(t, obj)
	}
	if l.encoded > 2*sample {
		t.Fatalf("%d objects were encoded", l.encoded)
	}
	l.encode = func(object) []byte { return []byte("changed") }
	sent := 0
	for l.proofs.Counts().Different == 0 {
		if sent++; sent > surely*sample {
			t.Fatalf("not found in %d objects", sent)
		}
		l.send(t, obj)
	}
	if got := l.send(t, obj); got != "changed" {
		t.Errorf("sent %s", got)
	}
	l.encode, l.encoded = nil, 0
	for range 5 {
		l.send(t, &corev1.ConfigMap{Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"a": {}}})
	}
	if l.encoded != 5 {
		t.Errorf("%d of 5 other objects were encoded", l.encoded)
	}
	if d := l.proofs.Counts().Last; d == nil || !d.Stopped || d.Key != "ns/name" || d.Form != "a form" || d.Revision != 42 {
		t.Errorf("the last difference is %+v", d)
	}
	if log := l.log.String(); !strings.Contains(log, "ERROR") || strings.Contains(log, "secret") {
		t.Errorf("logged %s", log)
	}
}

// TestDefaultsThatWereNotStored has Kubernetes set a default that stored objects do not have.
// Those that have it are sent as they are stored.
func TestDefaultsThatWereNotStored(t *testing.T) {
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	yes := true
	l.encode = func(obj object) []byte {
		config := obj.DeepCopyObject().(*corev1.ConfigMap)
		if config.Immutable == nil {
			config.Immutable = &yes
		}
		return []byte(wanted(t, config))
	}
	for i := range 100 {
		without := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("name-", i)}}
		if got := l.send(t, without); !strings.Contains(got, `"immutable":true`) {
			t.Fatalf("sent %s", got)
		}
		with := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("name-", i)}, Immutable: &yes}
		if got, want := l.send(t, with), wanted(t, with); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if c := l.proofs.Counts(); c.Different != 1 || c.Refuted != 99 || c.Compared != 1 || c.Transcoded != 99 {
		t.Errorf("%+v", c)
	}
}

// TestFormsThatTakeTurnsAreSampled sends objects in two forms by turns. Kubernetes changes its
// mind about one of them, either of which must be found.
func TestFormsThatTakeTurnsAreSampled(t *testing.T) {
	const sample = 16
	for wrong := range 2 {
		forms := [2]*lane{newLane(t, sample, "ConfigMap", &corev1.ConfigMap{}), newTargetLane(t, transcode.ItemJSON, sample, "ConfigMap", &corev1.ConfigMap{})}
		forms[1].shareProofs(t, forms[0])
		obj := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
		for _, l := range forms {
			l.send(t, obj)
		}
		forms[wrong].encode = func(object) []byte { return []byte("changed") }
		for sent := 0; forms[0].proofs.Counts().Different == 0; sent++ {
			if sent > surely*sample {
				t.Fatalf("a wrong form %d of two is not found", wrong)
			}
			forms[sent%2].send(t, obj)
		}
	}
}

// TestFailedEncoderProvesNothing makes Kubernetes' encoder fail.
func TestFailedEncoderProvesNothing(t *testing.T) {
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	obj := &corev1.ConfigMap{}
	stored := l.stored(t, obj)
	failed := fmt.Errorf("failed")
	for range 2 {
		dst, err := l.transcoder.Append([]byte("kept"), storedEntry(stored), func(dst []byte) ([]byte, error) { return append(dst, "part"...), failed })
		if err != failed || string(dst) != "kept" {
			t.Errorf("got %q, %v", dst, err)
		}
	}
}

// TestFingerprintsAreBounded sends objects that each have a fingerprint of their own.
func TestFingerprintsAreBounded(t *testing.T) {
	const bound = 1 << 16
	l := newLane(t, rarely, "ConfigMap", &corev1.ConfigMap{})
	highest := int64(0)
	for i := range bound + 1000 {
		l.send(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fmt.Sprint("kubernetes.io/", i): ""}}})
		highest = max(highest, l.proofs.Counts().Proven)
	}
	if now := l.proofs.Counts().Proven; highest != bound || now >= bound {
		t.Errorf("%d fingerprints proven at most, %d now", highest, now)
	}
	l.sendTwice(t, &corev1.ConfigMap{})
}

// TestProofsAreSharedSafely sends objects from several goroutines.
func TestProofsAreSharedSafely(t *testing.T) {
	l := newLane(t, 4, "ConfigMap", &corev1.ConfigMap{})
	var values [64][]byte
	var texts [64]string
	for i := range values {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fmt.Sprint("kubernetes.io/", i%32): ""}}}
		values[i] = l.stored(t, obj)
		texts[i] = wanted(t, obj)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 2000 {
				i %= len(values)
				got, err := l.transcoder.Append(nil, storedEntry(values[i]), func(dst []byte) ([]byte, error) {
					if i >= 56 { // Kubernetes has it otherwise.
						return append(dst, "other"...), nil
					}
					return append(dst, texts[i]...), nil
				})
				if err != nil || string(got) != texts[i] && i < 24 {
					t.Errorf("got %s, %v, want %s", got, err, texts[i])
					return
				}
			}
		})
	}
	group.Wait()
}

// TestUnsupportedTypes compiles types that tables do not describe.
func TestUnsupportedTypes(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Kind")
	for _, empty := range []runtime.Object{&runtime.Unknown{}, &metav1.Status{}, &metav1.List{}, &metav1.PartialObjectMetadataList{}} {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypeWithName(kind, empty)
		if _, err := transcode.NewTables().Kind(scheme, kind); !errors.Is(err, transcode.ErrUnsupported) {
			t.Errorf("%T: %v", empty, err)
		}
	}
}

// TestOtherVersionsHaveNoTables asks for a version in which a kind is not stored.
func TestOtherVersionsHaveNoTables(t *testing.T) {
	scheme := runtime.NewScheme()
	old, preferred := schema.GroupVersion{Group: "g", Version: "v1"}, schema.GroupVersion{Group: "g", Version: "v2"}
	scheme.AddKnownTypeWithName(old.WithKind("Both"), &corev1.ConfigMap{})
	scheme.AddKnownTypeWithName(old.WithKind("Old"), &corev1.ConfigMap{})
	scheme.AddKnownTypeWithName(preferred.WithKind("Both"), &corev1.ConfigMap{})
	if err := scheme.SetVersionPriority(preferred, old); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[schema.GroupVersionKind]bool{preferred.WithKind("Both"): true, old.WithKind("Both"): false, old.WithKind("Old"): true} {
		if _, err := transcode.NewTables().Kind(scheme, kind); (err == nil) != want {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
