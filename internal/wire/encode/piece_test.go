package encode

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// TestPieces writes pieces of both kinds and empty ones, plain and with gzip.
func TestPieces(t *testing.T) {
	long := strings.Repeat("some text that is long enough ", 100)
	made := 0
	again := NewLazyPiece(func(dst []byte) []byte {
		made++
		return append(dst, long...)
	})
	first, err := NewPiece([]byte("first "))
	if err != nil {
		t.Fatal(err)
	}
	deflated, err := NewPiece([]byte(long))
	if err != nil {
		t.Fatal(err)
	}
	quick, err := deflated.WithS2()
	if err != nil {
		t.Fatal(err)
	}
	if more := quick.Cost() - deflated.Cost(); more <= 0 || more > deflated.Size() {
		t.Errorf("%d bytes of %d in s2 besides", more, deflated.Size())
	}
	pieces := []Piece{first, {}, again, NewLazyPiece(func(dst []byte) []byte { return dst }), first, deflated, first, quick, first}
	from, to := "first ", "first "+long+"first "+long+"first "
	var plain []byte
	for _, p := range pieces {
		before := len(plain)
		if plain, err = p.AppendPlain(plain); err != nil {
			t.Fatal(err)
		}
		if int64(len(plain)-before) != p.Size() {
			t.Errorf("%d bytes of a piece of %d", len(plain)-before, p.Size())
		}
	}
	if string(plain) != from+long+to {
		t.Errorf("plain: %q", plain)
	}
	for range 2 {
		var out bytes.Buffer
		if err := WritePlain(&out, pieces); err != nil || out.String() != string(plain) {
			t.Errorf("written plain: %q, %v", out.String(), err)
		}
		out.Reset()
		if err := WriteGzip(&out, pieces); err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		if inflated, err := io.ReadAll(r); err != nil || string(inflated) != from+long+to {
			t.Errorf("inflated: %q, %v", inflated, err)
		}
	}
	if made != 5 || !again.IsDeflated() { // Once for its size, three times for its text, and once deflated.
		t.Errorf("made %d times", made)
	}
}
