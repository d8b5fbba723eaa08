package etcdfeed

import (
	"bytes"
	"math/big"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// pageEndEstimator chooses the end of the range that a page is requested with.
//
// etcd visits all keys of a range to count them, whatever the limit. If each page's range
// went to the end of the prefix, a load would cost the square of the number of keys. And
// no page could be requested before the previous one has arrived. So each range is made
// just wide enough for one page, judging by the density of the last keys.
//
// A key is taken as a number: its bytes after the prefix are the digits, to base 256, of
// a fraction. The width of a range is a difference of two such numbers. An estimate that
// is too wide costs etcd some keys to count; one that is too narrow costs a small page.
type pageEndEstimator struct {
	prefix string
	// width is the width of the next range. Nil means up to the limit.
	width *big.Int
	// growBits is the number of bits by which the width grows after a range without
	// keys.
	growBits uint
}

const (
	// keyDigits is the number of bytes of a key, after the prefix, that its number has.
	keyDigits = 160
	// firstGrowBits is growBits after a range with keys: one byte of a key. After each
	// further empty range it is doubled.
	firstGrowBits = 8
)

// keyNumber returns the number of a key.
func (p *pageEndEstimator) keyNumber(key string) *big.Int {
	var digits [keyDigits]byte
	copy(digits[:], key[len(p.prefix):])
	return new(big.Int).SetBytes(digits[:])
}

// endFor returns the end of the range that begins at start. It is not above limit.
func (p *pageEndEstimator) endFor(start, limit string) string {
	if p.width == nil {
		return limit
	}
	end := p.keyNumber(start)
	if end.Add(end, p.width); end.BitLen() > 8*keyDigits {
		return limit
	}
	return min(limit, p.prefix+string(bytes.TrimRight(end.FillBytes(make([]byte, keyDigits)), "\x00")))
}

// observe adjusts the width so that the next range has about pageKeys keys. kvs are the
// keys of the last range. more says that the range has further keys. Then the density is
// taken from the second half of kvs.
func (p *pageEndEstimator) observe(kvs []*mvccpb.KeyValue, more bool, pageKeys int64) {
	n := len(kvs)
	if n > 0 {
		p.growBits = firstGrowBits
	}
	switch {
	case more:
		p.width = p.keyNumber(string(kvs[n-1].Key))
		p.width.Sub(p.width, p.keyNumber(string(kvs[n/2].Key)))
		p.scale(pageKeys, int64(n-n/2))
	case p.width == nil:
	case n == 0:
		p.width.Lsh(p.width, p.growBits)
		p.growBits *= 2
	default:
		p.scale(pageKeys, int64(n))
	}
	if p.width != nil && p.width.BitLen() > 8*keyDigits {
		p.width = nil
	}
}

// scale multiplies the width by a fraction. The result is at least one.
func (p *pageEndEstimator) scale(numerator, denominator int64) {
	p.width.Div(p.width.Mul(p.width, big.NewInt(numerator)), big.NewInt(denominator))
	if p.width.Sign() == 0 {
		p.width.SetInt64(1)
	}
}
