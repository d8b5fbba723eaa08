package transcode

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

var (
	objectsFlag = flag.Int("objects", 40, "random objects of each version that are compared in each form")
	seedFlag    = flag.Int64("seed", 1, "seed of random objects")
)

// variants is how often the values of a random object are changed.
const variants = 6

// TestRandomObjectsAreEqualOrDeclined compares random objects of every version: those that
// Kubernetes would store, and those that only an older or a broken server could have stored.
// Of each there are several with other values in the same fields. If two of them have one
// fingerprint, both must be equal or both different: that is what Proofs rely on.
func TestRandomObjectsAreEqualOrDeclined(t *testing.T) {
	if len(versions()) < 120 {
		t.Fatalf("found only %d kinds and versions", len(versions()))
	}
	for i, v := range versions() {
		if v.tables == nil {
			t.Logf("%v has no tables: %v", v.kind, v.reason)
			continue
		}
		t.Run(fmt.Sprintf("%s.%s.%s", v.kind.Kind, v.kind.Version, v.kind.Group), func(t *testing.T) {
			for target := range mediaTypes {
				testRandom(t, newLane(t, v, target), *seedFlag+int64(1000*i))
				testRandom(t, newMetadataLane(t, v, target), *seedFlag+int64(1000*i))
			}
		})
	}
}

func testRandom(t *testing.T, l *lane, seed int64) {
	src := rand.NewSource(seed)
	r := rand.New(src)
	filler := fuzzer.FuzzerFor(l.version.funcs, src, l.version.codecs).RandSource(src).NilChance(.5).NumElements(1, 3)
	counts := map[outcome]int{}
	for i := range *objectsFlag {
		obj := l.version.random(t, filler, i%2 == 0)
		for range variants {
			stored, err := l.version.storeAsIs(obj)
			if err != nil {
				t.Fatal(err)
			}
			counts[l.send(t, stored)]++
			alter(r, obj)
		}
	}
	t.Logf("seed %d: %v, last difference: %s", seed, counts, l.alarm.last)
}

// random makes an object of the version. If canonical is set, it has been through
// Kubernetes' decoder and defaulting, as all that its handlers store.
func (v *version) random(tb testing.TB, filler *randfill.Filler, canonical bool) runtime.Object {
	tb.Helper()
	gvk := v.kind
	if canonical {
		gvk = v.internal().WithKind(v.kind.Kind)
	}
	obj, err := v.scheme.New(gvk)
	if err != nil {
		tb.Fatal(err)
	}
	filler.Fill(obj)
	if !canonical {
		return obj
	}
	stored, err := v.store(obj)
	if err != nil {
		tb.Fatal(err)
	}
	return v.admitted(tb, stored)
}

// admitted decodes an object as Kubernetes' handlers do, and returns it as they store it.
func (v *version) admitted(tb testing.TB, encoded []byte) runtime.Object {
	tb.Helper()
	obj, err := runtime.Decode(v.codecs.UniversalDecoder(v.internal()), encoded)
	if err != nil {
		tb.Fatal(err)
	}
	stored, err := v.store(obj)
	if err != nil {
		tb.Fatal(err)
	}
	if obj, err = runtime.Decode(v.codecs.UniversalDeserializer(), stored); err != nil {
		tb.Fatal(err)
	}
	return obj
}
