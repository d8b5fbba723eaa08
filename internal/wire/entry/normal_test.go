package entry

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// edited returns a text with random insertions, deletions and replacements.
func edited(random *rand.Rand, text []byte, edits int) []byte {
	text = bytes.Clone(text)
	for range edits {
		at := random.IntN(len(text) + 1)
		end := min(len(text), at+random.IntN(20))
		insertion := make([]byte, random.IntN(20))
		for i := range insertion {
			insertion[i] = byte(random.IntN(4))
		}
		text = append(append(bytes.Clone(text[:at]), insertion...), text[end:]...)
	}
	return text
}

// TestNormalBytes has texts with few letters, so that blocks come again, and texts of which
// nothing or everything is equal.
func TestNormalBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		stored := make([]byte, random.IntN(2000))
		letters := 1 + random.IntN(255)
		for i := range stored {
			stored[i] = byte(random.IntN(letters))
		}
		normal := edited(random, stored, random.IntN(6))
		e, owner := &Entry{Value: stored}, new(int)
		e.SetNormal(NewNormal(owner, stored, normal))
		checkNormal(t, e, owner, normal)
		checkNormal(t, e, new(int), stored)
	}
}

// checkNormal checks what an owner reads. Where no normal form is kept, that is what is stored.
func checkNormal(t *testing.T, e *Entry, owner any, normal []byte) {
	t.Helper()
	err := e.ReadNormal(owner, func(value []byte, edited bool) error {
		want := e.Value
		if edited {
			want = normal
		}
		if !bytes.Equal(value, want) || edited && bytes.Equal(normal, e.Value) {
			t.Errorf("%d bytes are read as %d, want %d (edited: %v)", len(e.Value), len(value), len(want), edited)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNormalOfOneLetter has the largest objects that etcd takes, of which all blocks are equal.
func TestNormalOfOneLetter(t *testing.T) {
	const size = 1_500_000
	stored := bytes.Repeat([]byte("a"), size)
	normal := bytes.Clone(stored)
	for at := 100; at < size; at += 2000 {
		copy(normal[at:], "another text of more than forty-eight bytes, so that it is looked for")
	}
	e := &Entry{Value: stored}
	e.SetNormal(NewNormal(t, stored, normal))
	checkNormal(t, e, t, normal)
}

// TestNormalIsSmall: a field that is put into the middle of an object costs its bytes, not the
// object's. Bytes that have nothing in common are not kept.
func TestNormalIsSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	stored := make([]byte, 17<<10)
	for i := range stored {
		stored[i] = byte(random.Uint32())
	}
	field := []byte("another field of the object")
	normal := append(append(bytes.Clone(stored[:9001]), field...), stored[9001:]...)
	normal[3]++ // a length
	n := NewNormal(t, stored, normal)
	if !n.Edited() || len(n.edits) > len(field)+2*blockSize+6 {
		t.Errorf("edits of %d bytes for a field of %d", len(n.edits), len(field))
	}
	slicesApart := bytes.Clone(stored)
	for i := range slicesApart {
		slicesApart[i] ^= 0x55
	}
	if n := NewNormal(t, stored, slicesApart); n.Edited() {
		t.Errorf("edits of %d bytes for an object of %d", len(n.edits), len(stored))
	}
	if n := NewNormal(t, stored, stored); n.Edited() {
		t.Error("an object that is stored as it should be has edits")
	}
}
