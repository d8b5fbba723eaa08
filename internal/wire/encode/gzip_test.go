package encode

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
)

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	// Half of the bytes repeat, so that they can be compressed.
	for i := range b {
		b[i] = byte(random.Uint32())
		if i >= 64 && i%2 == 0 {
			b[i] = b[i-64]
		}
	}
	return b
}

func newRandom(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestCombineCRC32(t *testing.T) {
	random := newRandom(t)
	for range 300 {
		b := randomBytes(random, random.IntN(5000))
		at := random.IntN(len(b) + 1)
		got := combineCRC32(crc32.ChecksumIEEE(b[:at]), crc32.ChecksumIEEE(b[at:]), int64(len(b)-at))
		if want := crc32.ChecksumIEEE(b); got != want {
			t.Fatalf("%d + %d bytes: %08x, want %08x", at, len(b)-at, got, want)
		}
	}
}

func TestCombineCRC32OfManyZeros(t *testing.T) {
	const chunk = 1 << 20
	zeros := make([]byte, chunk)
	whole := crc32.ChecksumIEEE([]byte("begin"))
	tail := uint32(0)
	for range 64 {
		whole = crc32.Update(whole, crc32.IEEETable, zeros)
		tail = crc32.Update(tail, crc32.IEEETable, zeros)
	}
	if got := combineCRC32(crc32.ChecksumIEEE([]byte("begin")), tail, 64*chunk); got != whole {
		t.Errorf("got %08x, want %08x", got, whole)
	}
}

// TestGzipStreams decodes streams of stored blocks and segments in random order.
func TestGzipStreams(t *testing.T) {
	random := newRandom(t)
	sizes := []int{0, 1, 2, 100, 5000, maxStoredBlock, maxStoredBlock + 1, 200_000}
	for range 60 {
		var want []byte
		var sum gzipSum
		out := bytes.Clone(gzipHeader)
		for range random.IntN(8) {
			b := randomBytes(random, sizes[random.IntN(len(sizes))])
			want = append(want, b...)
			switch random.IntN(3) {
			case 0:
				out = appendStored(out, b)
				sum.addBytes(b)
			case 1:
				out = append(out, deflated(b)...)
				sum.addBytes(b)
			case 2:
				out = append(out, deflated(b)...)
				sum.addSum(crc32.ChecksumIEEE(b), int64(len(b)))
			}
		}
		got := gunzip(t, sum.appendTrailer(out))
		if !bytes.Equal(got, want) {
			t.Fatalf("read %d bytes, want %d", len(got), len(want))
		}
	}
}

func TestGzipOfOne(t *testing.T) {
	random := newRandom(t)
	for _, n := range []int{0, 1, 1000, 300_000} {
		b := randomBytes(random, n)
		if got := gunzip(t, Compress(b, Gzip)); !bytes.Equal(got, b) {
			t.Errorf("%d bytes do not come back", n)
		}
	}
}

// gunzip decodes one stream to its end. That checks its checksum and length.
func gunzip(t testing.TB, compressed []byte) []byte {
	t.Helper()
	in := bytes.NewReader(compressed)
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if in.Len() != 0 {
		t.Fatalf("%d bytes behind the stream", in.Len())
	}
	return plain
}

func BenchmarkDeflate(b *testing.B) {
	src := randomBytes(rand.New(rand.NewPCG(1, 1)), 64<<10)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		_ = deflated(src)
	}
}

func BenchmarkCombineCRC32(b *testing.B) {
	for b.Loop() {
		combineCRC32(0x12345678, 0x9abcdef0, 65_537)
	}
}
