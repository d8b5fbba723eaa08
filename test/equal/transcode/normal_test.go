package transcode

import (
	"bytes"
	"math/rand"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// without calls use with a message from which one field is gone, for each field of it and of the
// messages in it, and stops when use returns false.
func without(message []byte, use func([]byte) bool) bool {
	fields := splitFields(message)
	for i, f := range fields {
		around := func(part []byte) []byte {
			changed := append(bytes.Join(fields[:i], nil), part...)
			return append(changed, bytes.Join(fields[i+1:], nil)...)
		}
		if !use(around(nil)) {
			return false
		}
		number, kind, n := protowire.ConsumeTag(f)
		if kind != protowire.BytesType {
			continue
		}
		content, _ := protowire.ConsumeBytes(f[n:])
		inside := func(part []byte) bool {
			return use(around(protowire.AppendBytes(protowire.AppendTag(nil, number, kind), part)))
		}
		if !without(content, inside) {
			return false
		}
	}
	return true
}

// TestFieldsThatComeBack leaves fields out of stored objects of all kinds, one at a time, as a
// version would that did not know them. Those that decoding puts back are sent as Kubernetes
// sends them, and from their normal form once a form knows that it needs one.
func TestFieldsThatComeBack(t *testing.T) {
	const minKinds, minNormal, most = 40, 1000, 60
	kinds, counts := 0, map[outcome]int{}
	for i, v := range versions() {
		if v.tables == nil {
			continue
		}
		source := rand.NewSource(*seedFlag + int64(i))
		filler := fuzzer.FuzzerFor(v.funcs, source, v.codecs).RandSource(source).NilChance(.3).NumElements(1, 2)
		back := false
		lanes := append(newLanes(t, v, transcode.ObjectJSON, transcode.ObjectProtobuf), newMetadataLane(t, v, transcode.ObjectJSON))
		left := most
		without(unwrap(t, v, v.random(t, filler, true)), func(content []byte) bool {
			stored := wrap(t, v, content)
			normal, err := v.stored(&entry.Entry{Key: "ns/name", Revision: revision, Value: stored})
			if left--; err != nil || bytes.Equal(normal, stored) {
				return left > 0
			}
			back = true
			for _, l := range lanes {
				l.send(t, stored)
				counts[l.send(t, stored)]++
			}
			return left > 0
		})
		if back {
			kinds++
		}
	}
	t.Logf("%d kinds have fields that come back: %v", kinds, counts)
	if kinds < minKinds || counts[normal] < minNormal || counts[refuted]+counts[different] > counts[normal]/10 {
		t.Errorf("%d kinds, the second time: %v", kinds, counts)
	}
}

// olderPods returns pods that were stored without the list of their addresses.
func olderPods(tb testing.TB, v *version, n, size int) []*entry.Entry {
	tb.Helper()
	entries := pods(tb, n, size)
	for i, e := range entries {
		var pod corev1.Pod
		decoded, err := v.decode(e)
		if err != nil {
			tb.Fatal(err)
		}
		if err := v.scheme.Convert(decoded, &pod, nil); err != nil {
			tb.Fatal(err)
		}
		pod.ResourceVersion, pod.Status.PodIP, pod.Status.PodIPs = "", "10.1.2.3", nil
		stored, err := v.storeAsIs(&pod)
		if err != nil {
			tb.Fatal(err)
		}
		entries[i] = &entry.Entry{Key: e.Key, Revision: e.Revision, Value: stored}
	}
	return entries
}

// TestNormalizeAhead has pods normalized before they are read: no read is refused then. Pods that
// are stored as they would be now stay as they are. A form of the metadata alone cannot do it.
func TestNormalizeAhead(t *testing.T) {
	v := versionOf(t, "v1", "Pod")
	proofs := transcode.NewProofs(transcode.Config{Sample: 1 << 30})
	normalizer := transcode.NewNormalizer(v.stored)
	made := transcode.New(v.tables, transcode.ObjectJSON, "pods", proofs, normalizer)
	encoder := v.encoder(t, mediaTypes[transcode.ObjectJSON])
	read := func(e *entry.Entry) {
		t.Helper()
		if _, err := made.Append(nil, e, func(dst []byte) ([]byte, error) {
			obj, err := v.decode(e)
			if err != nil {
				return dst, err
			}
			var buf bytes.Buffer
			err = encoder.Encode(obj, &buf)
			return append(dst, buf.Bytes()...), err
		}); err != nil {
			t.Fatal(err)
		}
	}
	older, newer := olderPods(t, v, 100, 4000), pods(t, 100, 4000)
	for i, e := range newer {
		if i < 50 {
			read(e)
		}
	}
	if normalizer.HasFound() {
		t.Error("a normal form of pods that are stored as they would be now")
	}
	for i, e := range older {
		if i < 50 {
			read(e)
		}
	}
	if !normalizer.HasFound() {
		t.Fatal("no pod was normalized")
	}
	metadata, err := v.tables.Metadata("v1")
	if err != nil {
		t.Fatal(err)
	}
	if !made.CanNormalize() || transcode.New(metadata, transcode.ObjectJSON, "metadata", proofs, normalizer).CanNormalize() {
		t.Error("forms of metadata alone can normalize, or forms of whole objects cannot")
	}
	var buf []byte
	for i := range older {
		buf = made.NormalizeAhead(buf, older[i])
		buf = made.NormalizeAhead(buf, newer[i])
	}
	before := proofs.Counts()
	if before.Normalized < 95 || before.Normalized > 100 {
		t.Errorf("%d pods were normalized", before.Normalized)
	}
	for i := range older {
		read(older[i])
		read(newer[i])
	}
	if after := proofs.Counts(); after.Refuted != before.Refuted || after.Normalized != before.Normalized {
		t.Errorf("reads were refused: %+v, before %+v", after, before)
	}
}

// TestOlderPods has pods that were stored without the list of their addresses, which decoding
// adds. After a few comparisons, each is encoded by Kubernetes at most once in all forms.
func TestOlderPods(t *testing.T) {
	v := versionOf(t, "v1", "Pod")
	proofs := transcode.NewProofs(transcode.Config{Sample: 1 << 30})
	entries := olderPods(t, v, 300, 4000)
	normalizer := transcode.NewNormalizer(v.stored)
	for _, target := range []transcode.Target{transcode.ObjectJSON, transcode.ObjectProtobuf} {
		encoder, made := v.encoder(t, mediaTypes[target]), transcode.New(v.tables, target, "pods", proofs, normalizer)
		encoded := 0
		for _, e := range entries {
			kubernetes := func(dst []byte) ([]byte, error) {
				obj, err := v.decode(e)
				if err != nil {
					return dst, err
				}
				var buf bytes.Buffer
				err = encoder.Encode(obj, &buf)
				return append(dst, buf.Bytes()...), err
			}
			want, wantErr := kubernetes(nil)
			got, err := made.Append(nil, e, func(dst []byte) ([]byte, error) { encoded++; return kubernetes(dst) })
			if wantErr != nil || err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v, %v: got %q, want %q", wantErr, err, got, want)
			}
		}
		if encoded > 10 {
			t.Errorf("Kubernetes encoded %d of %d pods", encoded, len(entries))
		}
	}
	if n := proofs.Counts().Normalized; n < int64(len(entries)-10) || n > int64(len(entries)) {
		t.Errorf("%d of %d pods were normalized", n, len(entries))
	}
}
