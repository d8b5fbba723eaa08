package transcode

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/transcode"
)

// FuzzStored feeds stored bytes of all versions to both encoders: they are equal, or the
// transcoder declines. Objects with one fingerprint must be all equal or all different. index
// selects the version, and content is the object inside of Kubernetes' envelope.
func FuzzStored(f *testing.F) {
	var lanes [2][]*lane
	for i, v := range versions() {
		if v.tables == nil {
			continue
		}
		both := newLanes(f, v, transcode.ObjectJSON, transcode.ObjectProtobuf)
		lanes[0], lanes[1] = append(lanes[0], both[0]), append(lanes[1], both[1])
		src := rand.NewSource(int64(i))
		filler := fuzzer.FuzzerFor(v.funcs, src, v.codecs)
		for range 3 {
			f.Add(uint8(len(lanes[0])-1), unwrap(f, v, v.random(f, filler, true)))
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, content []byte) {
		for target := range lanes {
			l := lanes[target][int(index)%len(lanes[target])]
			l.send(t, wrap(t, l.version, content))
		}
	})
}

// wrap puts an encoded object into Kubernetes' envelope.
func wrap(tb testing.TB, v *version, content []byte) []byte {
	tb.Helper()
	unknown := runtime.Unknown{Raw: content}
	unknown.APIVersion, unknown.Kind = v.kind.ToAPIVersionAndKind()
	encoded, err := unknown.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte("k8s\x00"), encoded...)
}

// unwrap is an object as it is stored, without the envelope.
func unwrap(tb testing.TB, v *version, obj runtime.Object) []byte {
	tb.Helper()
	stored, err := v.storeAsIs(obj)
	if err != nil {
		tb.Fatal(err)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(stored[4:]); err != nil {
		tb.Fatal(err)
	}
	return unknown.Raw
}
