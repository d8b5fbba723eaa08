package deflate_test

import (
	"bytes"
	stdflate "compress/flate"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/millrace/millrace/internal/wire/deflate"
)

var seedFlag = flag.Int64("seed", 1, "seed of random inputs")

// inflated is what deflated blocks stand for, by both the standard library and the one that
// clients in Go often have.
func inflated(t testing.TB, blocks []byte) []byte {
	t.Helper()
	stream := append(bytes.Clone(blocks), 3, 0) // An empty last block.
	var all [][]byte
	for _, r := range []io.Reader{stdflate.NewReader(bytes.NewReader(stream)), flate.NewReader(bytes.NewReader(stream))} {
		plain, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("inflate: %v", err)
		}
		all = append(all, plain)
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Fatal("two decompressors differ")
	}
	return all[0]
}

func check(t testing.TB, src []byte) (size int) {
	t.Helper()
	const before = "what stood before"
	blocks := deflate.Append([]byte(before), src)
	if !bytes.HasPrefix(blocks, []byte(before)) {
		t.Fatal("the beginning of the buffer was changed")
	}
	blocks = blocks[len(before):]
	if got := inflated(t, blocks); !bytes.Equal(got, src) {
		t.Fatalf("%d bytes came back as %d others", len(src), len(got))
	}
	return len(blocks)
}

func TestBytesComeBack(t *testing.T) {
	r := rand.New(rand.NewSource(*seedFlag))
	noise := make([]byte, 300_000)
	r.Read(noise)
	far := append(append(bytes.Clone(noise[:40_000]), noise[40_000-32<<10:40_000]...), noise[:100]...)
	for name, src := range map[string][]byte{
		"nothing":             nil,
		"one byte":            {7},
		"seven bytes":         []byte("7654321"),
		"eight bytes":         []byte("87654321"),
		"one byte repeated":   bytes.Repeat([]byte{'a'}, 1_000_000),
		"two bytes repeated":  bytes.Repeat([]byte("ab"), 400_000),
		"no repetition":       noise,
		"the whole window":    far,
		"beyond the window":   append(bytes.Clone(noise[:33_000]), noise[:33_000]...),
		"each byte once":      noise[:256],
		"few literals":        []byte(strings.Repeat("a", 20) + "b" + strings.Repeat("a", 20)),
		"many blocks":         objects(r, 3000),
		"repetition, unequal": append(bytes.Repeat([]byte("0123456789abcdef"), 5000), noise...),
		"rare symbols":        skewed(),
	} {
		t.Run(name, func(t *testing.T) { check(t, src) })
	}
}

// TestLengthsOfMatches repeats a text at lengths around those of a match.
func TestLengthsOfMatches(t *testing.T) {
	r := rand.New(rand.NewSource(*seedFlag))
	noise := make([]byte, 4096)
	r.Read(noise)
	for n := range 1100 {
		src := append(bytes.Clone(noise), noise[:n]...)
		check(t, append(src, "end"...))
	}
}

// skewed has byte b about Fibonacci(b) times, so that codes without a limit would be longer
// than deflate allows. Nothing repeats for long.
func skewed() []byte {
	var src []byte
	a, b := 1, 1
	for symbol := range 21 {
		for i := range a {
			src = append(src, byte(symbol), byte(symbol*7+i*13), byte(i>>3), byte(symbol))
		}
		a, b = b, a+b
	}
	r := rand.New(rand.NewSource(1))
	r.Shuffle(len(src), func(i, j int) { src[i], src[j] = src[j], src[i] })
	return src
}

func TestSizesOfCodesAreBounded(t *testing.T) {
	var src []byte
	a, b := 1, 1
	for symbol := range 20 {
		src = append(src, bytes.Repeat([]byte{byte(symbol)}, a)...)
		a, b = b, a+b
	}
	r := rand.New(rand.NewSource(*seedFlag))
	r.Shuffle(len(src), func(i, j int) { src[i], src[j] = src[j], src[i] })
	check(t, src)
}

func TestRandomInputsComeBack(t *testing.T) {
	r := rand.New(rand.NewSource(*seedFlag))
	for range 400 {
		var src []byte
		for n := r.Intn(40); n >= 0; n-- {
			switch r.Intn(4) {
			case 0:
				part := make([]byte, r.Intn(3000))
				r.Read(part)
				src = append(src, part...)
			case 1:
				src = append(src, bytes.Repeat([]byte{byte(r.Intn(4))}, r.Intn(3000))...)
			default:
				if len(src) > 0 {
					from := r.Intn(len(src))
					src = append(src, src[from:from+r.Intn(len(src)-from)]...)
				}
			}
			src = src[:min(len(src), 500_000)]
		}
		check(t, src)
	}
}

// objects are n objects that are like the pods of a list.
func objects(r *rand.Rand, n int) []byte {
	common := make([]byte, 4000)
	for i := range common {
		common[i] = `abcdefghijklmnopqrstuvwxyz":{},[]`[r.Intn(33)]
	}
	var src []byte
	for i := range n {
		src = fmt.Appendf(src, `{"metadata":{"name":"pod-%d","uid":"%016x"},"spec":`, i, r.Uint64())
		src = append(src, common[:2000]...)
		src = fmt.Appendf(src, `,"nodeName":"node-%d","podIP":"10.0.%d.%d"`, r.Intn(1000), r.Intn(256), r.Intn(256))
		src = append(src, common[2000:]...)
		src = fmt.Appendf(src, `,"containerID":"containerd://%016x%016x"},`, r.Uint64(), r.Uint64())
	}
	return src
}

// TestLikeObjectsBecomeSmall compares the size with that of the library's level 3.
func TestLikeObjectsBecomeSmall(t *testing.T) {
	src := objects(rand.New(rand.NewSource(*seedFlag)), 48)
	var library bytes.Buffer
	w, err := flate.NewWriter(&library, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(src); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	size := check(t, src)
	t.Logf("%d bytes: %d, and %d by the library", len(src), size, library.Len())
	if size > library.Len()*21/20 {
		t.Errorf("%d bytes became %d, and %d by the library", len(src), size, library.Len())
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte("a text, a text, and a text again"), uint8(3))
	f.Add([]byte{0, 1, 2, 3}, uint8(200))
	f.Fuzz(func(t *testing.T, src []byte, times uint8) {
		check(t, src)
		var repeated []byte
		for i := range times {
			repeated = append(append(repeated, src...), i)
		}
		check(t, repeated)
	})
}

func BenchmarkAppend(b *testing.B) {
	src := objects(rand.New(rand.NewSource(1)), 24)
	b.Run("deflate", func(b *testing.B) {
		b.SetBytes(int64(len(src)))
		var out []byte
		for b.Loop() {
			out = deflate.Append(out[:0], src)
		}
		b.ReportMetric(1000*float64(len(out))/float64(len(src)), "‰")
	})
	for level := 1; level <= 5; level += 2 {
		b.Run(fmt.Sprintf("library-%d", level), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			var out bytes.Buffer
			w, err := flate.NewWriter(&out, level)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				out.Reset()
				w.Reset(&out)
				_, _ = w.Write(src)
				_ = w.Flush()
			}
			b.ReportMetric(1000*float64(out.Len())/float64(len(src)), "‰")
		})
	}
}
