package entry_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/wire/entry"
)

// object returns text that resembles other objects' of its kind.
func object(r *rand.Rand, i int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"pod-%d","uid":"%016x%016x","labels":{"app":"web"}},"spec":{"nodeName":"node-%d","containers":[{"name":"main","image":"registry.example/web:v1.2.3"}]}}`,
		i, r.Uint64(), r.Uint64(), r.IntN(1000))
}

func TestPackedEntriesReadAsStored(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	packing, err := entry.NewPacking([][]byte{object(r, 1), object(r, 2), object(r, 3)})
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]*entry.Entry, 200)
	stored := make([][]byte, len(entries))
	for i := range entries {
		stored[i] = object(r, i)
		entries[i] = &entry.Entry{Key: fmt.Sprint(i), Value: bytes.Clone(stored[i])}
		entries[i].Pack(packing)
		if !entries[i].Packed() || len(entries[i].Value) > len(stored[i])/2 {
			t.Fatalf("entry %d takes %d of %d bytes: want less than half", i, len(entries[i].Value), len(stored[i]))
		}
		if got := entries[i].Size(); got != len(stored[i]) {
			t.Fatalf("Size() = %d, want %d", got, len(stored[i]))
		}
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i, e := range entries {
				err := e.Read(func(value []byte) error {
					if !bytes.Equal(value, stored[i]) {
						return fmt.Errorf("read %q, want %q", value, stored[i])
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// TestPackingOfAllSizes packs values of all sizes that etcd stores, more or less similar to
// the dictionary.
func TestPackingOfAllSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, samples := range []int{1, 20, 1000} { // fewer bytes than a dictionary has, about as many, and more
		var dictionary [][]byte
		for i := range samples {
			dictionary = append(dictionary, object(r, i))
		}
		packing, err := entry.NewPacking(dictionary)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 7, 31, 32, 33, 200, 5000, 32 << 10, 64<<10 - 9, 64 << 10, 64<<10 + 1, 100_000, 1_500_000} {
			for _, noise := range []int{0, 3, 50} {
				var value []byte
				for i := 0; len(value) < size; i++ {
					value = append(value, object(r, i)...)
					for range noise {
						value = append(value, byte(r.Uint32()))
					}
				}
				value = value[:size]
				e := &entry.Entry{Value: bytes.Clone(value)}
				e.Pack(packing)
				if size >= 5000 && len(e.Value) > size*2/3 {
					t.Errorf("%d bytes with noise %d take %d", size, noise, len(e.Value))
				}
				if err := e.Read(func(got []byte) error {
					if !bytes.Equal(got, value) {
						return fmt.Errorf("%d bytes with noise %d and %d samples changed", size, noise, samples)
					}
					return nil
				}); err != nil || e.Size() != size {
					t.Error(err, e.Size())
				}
			}
		}
	}
}

func TestPackLeavesWhatDoesNotShrink(t *testing.T) {
	packing, err := entry.NewPacking([][]byte{[]byte("nothing in common")})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 40)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	e := &entry.Entry{Value: bytes.Clone(value)}
	e.Pack(packing)
	if e.Packed() || !bytes.Equal(e.Value, value) || e.Size() != len(value) {
		t.Fatalf("random bytes were packed to %d bytes", len(e.Value))
	}
}

func TestPackingNeedsSamples(t *testing.T) {
	if _, err := entry.NewPacking(nil); err == nil {
		t.Fatal("NewPacking(nil) made a dictionary of nothing")
	}
}

func TestReadReportsDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	packing, err := entry.NewPacking([][]byte{object(r, 1)})
	if err != nil {
		t.Fatal(err)
	}
	e := &entry.Entry{Key: "ns/a", Value: object(r, 2)}
	e.Pack(packing)
	e.Value = e.Value[:len(e.Value)/2]
	if err := e.Read(func([]byte) error { return nil }); err == nil {
		t.Fatal("half of a packed value was read without an error")
	}
}
