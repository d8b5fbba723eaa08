package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// maxClientWindow is the window that every client must support (RFC 9659).
const maxClientWindow = 8 << 20

var strictDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxWindow(maxClientWindow), zstd.WithDecoderMaxMemory(1<<30))
})

// firstFrame walks a frame's blocks (RFC 8878, 3.1.1). It returns the frame's plain bytes,
// and the bytes after the frame, which decoders of a single frame do not see.
func firstFrame(tb testing.TB, stream []byte) (plain, rest []byte) {
	tb.Helper()
	var header zstd.Header
	if err := header.Decode(stream); err != nil {
		tb.Fatalf("frame header: %v", err)
	}
	if header.Skippable || header.DictionaryID != 0 || header.WindowSize > maxClientWindow {
		tb.Fatalf("frame header: %+v", header)
	}
	largest := min(header.WindowSize, 128<<10)
	if header.SingleSegment {
		largest = min(header.FrameContentSize, 128<<10)
	}
	at := header.HeaderSize
	for last := false; !last; {
		if len(stream) < at+3 {
			tb.Fatalf("the frame ends at byte %d without a last block", len(stream))
		}
		block := uint32(stream[at]) | uint32(stream[at+1])<<8 | uint32(stream[at+2])<<16
		last = block&1 != 0
		size, kind := int(block>>3), block>>1&3
		if uint64(size) > largest || kind == 3 {
			tb.Fatalf("a block of kind %d has %d bytes, at most %d are allowed", kind, size, largest)
		}
		if kind == 1 { // one byte, repeated
			size = 1
		}
		at += 3 + size
	}
	if header.HasCheckSum {
		at += 4
	}
	decoder, err := strictDecoder()
	if err != nil {
		tb.Fatal(err)
	}
	if plain, err = decoder.DecodeAll(stream[:at], nil); err != nil {
		tb.Fatalf("decode frame: %v", err)
	}
	return plain, stream[at:]
}

// unzstd decodes a stream that must be one frame.
func unzstd(tb testing.TB, stream []byte) []byte {
	tb.Helper()
	plain, rest := firstFrame(tb, stream)
	if len(rest) > 0 {
		tb.Fatalf("%d bytes stand behind the first frame of %d", len(rest), len(stream)-len(rest))
	}
	return plain
}

// repetitiveBytes makes bytes with matches at all distances that an encoder may express as
// repeat offsets. A frame begins with the repeat offsets 1, 4 and 8.
func repetitiveBytes(random *rand.Rand, size int) []byte {
	out := make([]byte, 0, size+64)
	for len(out) < size {
		switch random.IntN(6) {
		case 0:
			out = append(out, bytes.Repeat([]byte{byte(random.Uint32())}, 1+random.IntN(40))...)
		case 1:
			period := binary.LittleEndian.AppendUint64(nil, random.Uint64())[:[]int{2, 3, 4, 5, 7, 8}[random.IntN(6)]]
			out = append(out, bytes.Repeat(period, 2+random.IntN(6))...)
		case 2:
			out = binary.LittleEndian.AppendUint64(out, random.Uint64())
		case 3:
			if back := random.IntN(len(out) + 1); back > 0 {
				for range 4 + random.IntN(60) {
					out = append(out, out[len(out)-back])
				}
			}
		case 4:
			out = fmt.Appendf(out, `,{"name":"pod-%05d","uid":"%08x"}`, random.IntN(100000), random.Uint32())
		default:
			for range 1 + random.IntN(3) {
				out = append(out, byte('a'+random.IntN(26)))
			}
		}
	}
	return out[:size]
}

// composeZstd writes parts as one stream, each as a segment or plain.
func composeZstd(tb testing.TB, parts [][]byte, compressed func(i int) bool) []byte {
	tb.Helper()
	var stream bytes.Buffer
	out := newOutput(&stream, Zstd)
	defer out.release()
	for i, part := range parts {
		var err error
		if compressed(i) && len(part) > 0 {
			err = out.compressed((&segment{bytes: part, size: int64(len(part))}).zstdCompressed())
		} else {
			err = out.plain(part)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := out.end(); err != nil {
		tb.Fatal(err)
	}
	return stream.Bytes()
}

// TestZstdIsOneFrame composes segments of all kinds in random order. A segment must not
// depend on the repeat offsets that the segment before it leaves.
func TestZstdIsOneFrame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 2, 9, 10, 11, 100, 128, 129, 1000, 5000, 60_000, 128 << 10, 128<<10 + 1, 300_000, 1<<20 + 77}
	var segments [][]byte
	for _, size := range sizes {
		noise := make([]byte, size)
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		segments = append(segments, repetitiveBytes(random, size), noise, bytes.Repeat([]byte("x"), size), bytes.Repeat([]byte("abcd"), size/4+1),
			bytes.Repeat([]byte("abcdefgh"), size/8+1), []byte(strings.Repeat(`,{"metadata":{"name":"a"}}`, size/20+1)), append(noise[:size/2:size/2], repetitiveBytes(random, size)...))
	}
	for range 60 {
		parts := make([][]byte, 1+random.IntN(12))
		for i := range parts {
			parts[i] = segments[random.IntN(len(segments))]
		}
		kinds := random.Uint64() | random.Uint64()
		stream := composeZstd(t, parts, func(i int) bool { return kinds>>i&1 != 0 })
		if got := unzstd(t, stream); !bytes.Equal(got, bytes.Join(parts, nil)) {
			t.Fatalf("parts of %d bytes: decoded %d of %d bytes", lengths(parts), len(got), len(bytes.Join(parts, nil)))
		}
	}
}

// TestSegmentsStandAlone composes many short segments. They consist mostly of first
// sequences, which could use the repeat offsets of the segment before.
func TestSegmentsStandAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		parts := make([][]byte, 40)
		for i := range parts {
			parts[i] = repetitiveBytes(random, 129+random.IntN(400))
		}
		if got := unzstd(t, composeZstd(t, parts, func(int) bool { return true })); !bytes.Equal(got, bytes.Join(parts, nil)) {
			t.Fatal("segments in one stream do not decode to their plain bytes")
		}
	}
}

// TestRepeatOffsetsCarryOver shows that the tests above notice a segment that depends on
// the bytes before it. The segment is the reference encoder's. It begins with the repeat
// offset 4 of a new frame.
func TestRepeatOffsetsCarryOver(t *testing.T) {
	const blocks = "\x5c\x00\x00\x28abcdq\x01\x00\x51\x7a\x89"
	want := append(bytes.Repeat([]byte("abcd"), 30), 'q')
	frame := slices.Concat(zstdHeader, []byte(blocks), zstdEnd)
	if got := unzstd(t, frame); !bytes.Equal(got, want) {
		t.Fatalf("decoded %q", got)
	}
	before := repetitiveBytes(rand.New(rand.NewPCG(9, 10)), 1000)
	stream := slices.Concat(zstdHeader, appendBlocks(nil, before), []byte(blocks), zstdEnd)
	decoder, err := strictDecoder()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decoder.DecodeAll(stream, nil); err == nil && bytes.Equal(got, append(before, want...)) {
		t.Error("the segment decodes to the same bytes behind another")
	}
}

func lengths(parts [][]byte) []int {
	var all []int
	for _, p := range parts {
		all = append(all, len(p))
	}
	return all
}

// TestEmptyZstd writes a stream without bytes, which is a frame.
func TestEmptyZstd(t *testing.T) {
	if got := unzstd(t, composeZstd(t, nil, nil)); len(got) > 0 {
		t.Errorf("decoded %q", got)
	}
	for _, size := range []int{0, 1, 200_000} {
		src := bytes.Repeat([]byte("y"), size)
		if got := unzstd(t, Compress(src, Zstd)); !bytes.Equal(got, src) {
			t.Errorf("%d bytes are decoded to %d", size, len(got))
		}
	}
}

// TestSegmentUnpacks compresses segments and unpacks them again.
func TestSegmentUnpacks(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, size := range []int{1, 100, 5000, 400_000, 3 << 20} {
		plain := &segment{bytes: repetitiveBytes(random, size), size: int64(size)}
		again, err := plain.zstdCompressed().zstdDecompressed()
		if err != nil || !bytes.Equal(again.bytes, plain.bytes) {
			t.Errorf("%d bytes were decompressed to %d bytes: %v", size, len(again.bytes), err)
		}
		if cap(again.bytes) > size+size/8+64 {
			t.Errorf("decompressing %d bytes allocated %d", size, cap(again.bytes))
		}
	}
}

// FuzzZstdFrame cuts bytes into segments and plain parts, in random order. The stream
// must be one frame of these bytes.
func FuzzZstdFrame(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaabcdabcdabcdabcdabcdefghabcdefghabcdefgh"), uint64(7), uint64(5))
	f.Add([]byte(strings.Repeat(`,{"metadata":{"name":"a"}}`, 40)), uint64(1), uint64(1<<63|3))
	f.Add(repetitiveBytes(rand.New(rand.NewPCG(7, 8)), 4000), uint64(3), uint64(0))
	f.Fuzz(func(t *testing.T, src []byte, seed, kinds uint64) {
		random := rand.New(rand.NewPCG(seed, kinds))
		var parts [][]byte
		for rest := src; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1+len(src)/2))
			parts = append(parts, bytes.Repeat(rest[:n], 1+random.IntN(4)))
			rest = rest[n:]
		}
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		stream := composeZstd(t, parts, func(i int) bool { return kinds>>(i%64)&1 != 0 })
		if got := unzstd(t, stream); !bytes.Equal(got, bytes.Join(parts, nil)) {
			t.Fatalf("parts of %d bytes are decoded otherwise", lengths(parts))
		}
	})
}
