package encode

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
)

// Piece is a part of a document, deflated apart from the other parts. It is for documents
// whose parts change one by one. With gzip the pieces are sent as they are, one after the
// other. Each ends on a byte boundary, and none has deflate's final block, so they are one
// stream. For a plain answer they are inflated one at a time. A piece is immutable, and owns
// its bytes. The zero value is empty.
type Piece struct {
	deflated []byte
	// s2 has the same bytes in the format S2 (extended Snappy), if WithS2 was called.
	s2 []byte
	// crc and size are of the plain bytes.
	crc  uint32
	size int64
	// lazy is set for pieces of NewLazyPiece, which have neither deflated nor s2.
	lazy *lazyDeflate
}

// lazyDeflate generates a piece's plain bytes each time they are needed, and deflates them
// when that is first needed. All copies of the piece share it.
type lazyDeflate struct {
	plain    func(dst []byte) []byte
	done     atomic.Bool
	once     sync.Once
	deflated Piece
	err      error
}

// maxStoredPiece is the largest piece, in bytes, that is stored uncompressed.
const maxStoredPiece = 64

// NewPiece makes a piece of plain, which stays the caller's.
func NewPiece(plain []byte) (Piece, error) {
	if len(plain) == 0 {
		return Piece{}, nil
	}
	var sum gzipSum
	sum.addBytes(plain)
	if len(plain) <= maxStoredPiece {
		return Piece{deflated: appendStored(nil, plain), crc: sum.crc, size: sum.size}, nil
	}
	var out bytes.Buffer
	out.Grow(len(plain)/8 + 64)
	w := pieceDeflaters.Get().(*flate.Writer)
	defer pieceDeflaters.Put(w)
	w.Reset(&out)
	if _, err := w.Write(plain); err != nil {
		return Piece{}, fmt.Errorf("deflate piece: %w", err)
	}
	// Close would write a final block, after which no other piece could follow.
	if err := w.Flush(); err != nil {
		return Piece{}, fmt.Errorf("deflate piece: %w", err)
	}
	return Piece{deflated: bytes.Clone(out.Bytes()), crc: sum.crc, size: sum.size}, nil
}

// NewLazyPiece makes a piece of the bytes that plain appends. plain must append the same
// bytes each time, and be safe for concurrent use. It is for bytes that are generated
// faster than they are inflated.
func NewLazyPiece(plain func(dst []byte) []byte) Piece {
	size := int64(len(plain(nil)))
	if size == 0 {
		return Piece{}
	}
	return Piece{size: size, lazy: &lazyDeflate{plain: plain}}
}

// Deflate returns the piece with its bytes deflated. Pieces of NewPiece are deflated from the
// beginning. A lazy piece is deflated by the first call, and keeps the result.
func (p Piece) Deflate() (Piece, error) {
	if p.lazy == nil {
		return p, nil
	}
	p.lazy.once.Do(func() {
		p.lazy.deflated, p.lazy.err = NewPiece(p.lazy.plain(make([]byte, 0, p.size)))
		p.lazy.done.Store(true)
	})
	return p.lazy.deflated, p.lazy.err
}

// IsDeflated reports whether Deflate has nothing to do.
func (p Piece) IsDeflated() bool { return p.lazy == nil || p.lazy.done.Load() }

// Size returns the number of plain bytes.
func (p Piece) Size() int64 { return p.size }

// lazyCostDivisor estimates what a lazy piece keeps when it is deflated: the generated paths of
// OpenAPI shrink to about a sixteenth.
const lazyCostDivisor = 16

// Cost returns the number of bytes that the piece keeps in memory. For a lazy piece it is an
// estimate.
func (p Piece) Cost() int64 {
	if p.lazy != nil {
		return p.size / lazyCostDivisor
	}
	return int64(cap(p.deflated) + cap(p.s2))
}

// WithS2 returns a copy of the piece that has its bytes as S2 too. A lazy or very small
// piece is returned as it is. AppendPlain of the copy takes a fourth of the time, and
// the copy about twice as much memory as p.
func (p Piece) WithS2() (Piece, error) {
	if p.lazy != nil || p.size <= maxStoredPiece {
		return p, nil
	}
	plain, err := p.AppendPlain(make([]byte, 0, p.size))
	if err != nil {
		return p, err
	}
	p.s2 = bytes.Clone(s2.Encode(nil, plain))
	return p, nil
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

// AppendPlain appends the plain bytes to dst.
func (p Piece) AppendPlain(dst []byte) ([]byte, error) {
	if p.size == 0 {
		return dst, nil
	}
	if p.lazy != nil {
		return p.lazy.plain(dst), nil
	}
	if p.size <= maxStoredPiece { // one stored block
		return append(dst, p.deflated[len(p.deflated)-int(p.size):]...), nil
	}
	start := len(dst)
	dst = slices.Grow(dst, int(p.size))[:start+int(p.size)]
	if p.s2 != nil {
		if _, err := s2.Decode(dst[start:], p.s2); err != nil {
			return dst[:start], fmt.Errorf("unpack piece: %w", err)
		}
		return dst, nil
	}
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(p.deflated), nil); err != nil {
		return dst[:start], fmt.Errorf("inflate piece: %w", err)
	}
	if _, err := io.ReadFull(r, dst[start:]); err != nil {
		return dst[:start], fmt.Errorf("inflate piece: %w", err)
	}
	return dst, nil
}

// WriteGzip writes pieces as one gzip stream.
func WriteGzip(w io.Writer, pieces []Piece) error {
	if _, err := w.Write(gzipHeader); err != nil {
		return fmt.Errorf("write gzip header: %w", err)
	}
	var sum gzipSum
	for _, p := range pieces {
		if p.size == 0 {
			continue
		}
		p, err := p.Deflate()
		if err != nil {
			return err
		}
		if _, err := w.Write(p.deflated); err != nil {
			return fmt.Errorf("write gzip piece: %w", err)
		}
		sum.addSum(p.crc, p.size)
	}
	if _, err := w.Write(sum.appendTrailer(nil)); err != nil {
		return fmt.Errorf("write gzip trailer: %w", err)
	}
	return nil
}

// WritePlain writes the plain bytes of pieces. It gathers small pieces into larger writes.
func WritePlain(w io.Writer, pieces []Piece) error {
	buf := plainBuffers.Get().(*[]byte)
	defer plainBuffers.Put(buf)
	plain := (*buf)[:0]
	for i, p := range pieces {
		var err error
		if plain, err = p.AppendPlain(plain); err != nil {
			return err
		}
		if len(plain) < minPlainWrite && i < len(pieces)-1 {
			continue
		}
		if _, err := w.Write(plain); err != nil {
			return fmt.Errorf("write plain pieces: %w", err)
		}
		*buf, plain = plain, plain[:0]
	}
	return nil
}

// minPlainWrite is the number of bytes that WritePlain gathers before it writes.
const minPlainWrite = 64 << 10

// plainBuffers keep the size of the largest write that they were used for.
var plainBuffers = sync.Pool{New: func() any { return new([]byte) }}
