package transcode

import (
	"bytes"
	"testing"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// BenchmarkNormalize reads pods of 17 KB that an older version has stored, for the first time.
func BenchmarkNormalize(b *testing.B) {
	v := versionOf(b, "v1", "Pod")
	proofs := transcode.NewProofs(transcode.Config{})
	made := transcode.New(v.tables, transcode.ObjectJSON, "pods", proofs, transcode.NewNormalizer(v.stored))
	encoder := v.encoder(b, mediaTypes[transcode.ObjectJSON])
	older := olderPods(b, v, 200, 17000)
	var buf bytes.Buffer
	var out []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &entry.Entry{Key: "ns/name", Revision: revision, Value: older[i%len(older)].Value}
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
