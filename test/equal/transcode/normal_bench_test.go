package transcode

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// BenchmarkNormalize reads pods of 17 KB that an older version has stored, for the first time.
func BenchmarkNormalize(b *testing.B) {
	v := versionOf(b, "v1", "Pod")
	proofs := transcode.NewProofs(transcode.Config{})
	made := transcode.New(v.tables, transcode.ObjectJSON, "pods", proofs, v.normalizer)
	encoder := v.encoder(b, mediaTypes[transcode.ObjectJSON])
	var stored [][]byte
	for _, e := range pods(b, 200, 17000) {
		decoded, err := v.decode(e)
		if err != nil {
			b.Fatal(err)
		}
		var pod corev1.Pod
		if err := v.scheme.Convert(decoded, &pod, nil); err != nil {
			b.Fatal(err)
		}
		pod.ResourceVersion, pod.Status.PodIP, pod.Status.PodIPs = "", "10.1.2.3", nil
		value, err := v.storeAsIs(&pod)
		if err != nil {
			b.Fatal(err)
		}
		stored = append(stored, value)
	}
	var buf bytes.Buffer
	var out []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &entry.Entry{Key: "ns/name", Revision: revision, Value: stored[i%len(stored)]}
		var err error
		if out, err = made.Append(out[:0], e, func(dst []byte) ([]byte, error) {
			obj, err := v.decode(e)
			if err != nil {
				return dst, err
			}
			buf.Reset()
			err = encoder.Encode(obj, &buf)
			return append(dst, buf.Bytes()...), err
		}); err != nil {
			b.Fatal(err)
		}
	}
}
