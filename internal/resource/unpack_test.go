package resource_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/millrace/millrace/internal/resource"
)

// dictionaryAndPacking are the library's dictionary and the packing of the same bytes.
func dictionaryAndPacking(t testing.TB, content []byte) (*s2.Dict, *resource.Packing) {
	t.Helper()
	packing, err := resource.NewPacking([][]byte{content})
	if err != nil {
		t.Fatal(err)
	}
	return s2.MakeDict(content, nil), packing
}

// sameAsLibrary packs a value and unpacks it, as it is and with one byte damaged, by both.
func sameAsLibrary(t *testing.T, dictionary *s2.Dict, packing *resource.Packing, value []byte, damage uint64) {
	t.Helper()
	e := &resource.Entry{Key: "ns/name", Value: bytes.Clone(value)}
	e.Pack(packing)
	if err := e.Read(func(got []byte) error {
		if !bytes.Equal(got, value) {
			return fmt.Errorf("%d bytes changed", len(value))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !e.Packed() {
		return
	}
	if want, err := dictionary.Decode(nil, e.Value); err != nil || !bytes.Equal(want, value) {
		t.Fatalf("the library reads %d bytes as %d, %v", len(value), len(want), err)
	}
	e.Value[damage%uint64(len(e.Value))] ^= byte(1 + damage>>32)
	if size, err := s2.DecodedLen(e.Value); err != nil || size > 1<<20 {
		return // The library would make a buffer of that size.
	}
	want, wantErr := dictionary.Decode(nil, e.Value)
	err := e.Read(func(got []byte) error {
		if wantErr == nil && !bytes.Equal(got, want) {
			return fmt.Errorf("damaged bytes are read as %d others than by the library", len(got))
		}
		return nil
	})
	if wantErr == nil && err != nil {
		t.Fatalf("damaged bytes that the library reads: %v", err)
	}
}

func TestUnpackingEqualsTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 60 {
		var content []byte
		for len(content) < 100+r.IntN(40_000) {
			content = append(content, object(r, r.IntN(100))...)
		}
		content = content[:min(len(content), 32<<10)]
		dictionary, packing := dictionaryAndPacking(t, content)
		for range 40 {
			var value []byte
			for range r.IntN(30) {
				switch r.IntN(5) {
				case 0:
					value = append(value, bytes.Repeat([]byte{byte(r.IntN(3))}, r.IntN(600))...)
				case 1:
					for range r.IntN(200) {
						value = append(value, byte(r.Uint32()))
					}
				case 2:
					from := r.IntN(len(content))
					value = append(value, content[from:from+r.IntN(len(content)-from)]...)
				default:
					value = append(value, object(r, r.IntN(100))...)
				}
			}
			sameAsLibrary(t, dictionary, packing, value, r.Uint64())
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("a dictionary with some text"), []byte("some text and some text"), uint64(3))
	f.Fuzz(func(t *testing.T, content, value []byte, damage uint64) {
		if len(content) < s2.MinDictSize || len(content) > 32<<10 {
			return
		}
		dictionary, packing := dictionaryAndPacking(t, content)
		sameAsLibrary(t, dictionary, packing, value, damage)
	})
}
