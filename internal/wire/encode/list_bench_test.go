package encode

import (
	"fmt"
	"io"
	"slices"
	"testing"
)

const benchmarkObjects = 4800

func benchmarkList(b *testing.B, write func(*List) error) {
	for name, framing := range framings {
		for _, memo := range []string{"warm", "cold"} {
			b.Run(fmt.Sprintf("%s/%s", name, memo), func(b *testing.B) {
				w := newFixture(b)
				if memo == "cold" {
					w.budget = nil
				}
				all := groups(b, benchmarkObjects, 48)
				list := newList(w.form(b, framing), all, 0, benchmarkObjects)
				size, err := list.sizeUpTo(noBound)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					if err := write(list); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkListWrite(b *testing.B) {
	benchmarkList(b, func(l *List) error { return l.Write(io.Discard, Identity) })
}

func BenchmarkListWriteGzip(b *testing.B) {
	benchmarkList(b, func(l *List) error { return l.Write(io.Discard, Gzip) })
}

func BenchmarkListWriteZstd(b *testing.B) {
	benchmarkList(b, func(l *List) error { return l.Write(io.Discard, Zstd) })
}

// BenchmarkSegment compresses and unpacks a segment as a tight budget does.
func BenchmarkSegment(b *testing.B) {
	w := newFixture(b)
	g := groups(b, 480, 480)[0]
	plain, err := w.form(b, JSON).plainSegment(g.memo, g.entries)
	if err != nil {
		b.Fatal(err)
	}
	zstd := plain.zstdCompressed()
	b.Run("zstd", func(b *testing.B) {
		b.SetBytes(plain.size)
		b.ReportAllocs()
		for b.Loop() {
			_ = plain.zstdCompressed()
		}
	})
	b.Run("unzipped", func(b *testing.B) {
		b.SetBytes(plain.size)
		b.ReportAllocs()
		for b.Loop() {
			if err := zstd.useZstdDecompressed(func(*segment) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLeafChange reads a leaf after one of its objects has changed. That is the cost
// of a write for the next reader.
func BenchmarkLeafChange(b *testing.B) {
	for name, framing := range framings {
		b.Run(name, func(b *testing.B) {
			w := newFixture(b)
			f := w.form(b, framing)
			g := groups(b, 48, 48)[0]
			changed := configEntry(b, 7, "changed")
			original := g.entries[7]
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				next := group{memo: new(Memo), entries: slices.Clone(g.entries)}
				next.memo.Succeed(g.memo, w.budget)
				if i++; i%2 == 1 {
					next.entries[7] = changed
				} else {
					next.entries[7] = original
				}
				g = next
				if err := newList(f, []group{g}, 0, len(g.entries)).Write(io.Discard, Identity); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
