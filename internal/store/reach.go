package store

import (
	"bytes"
	"math/big"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// keyRange chooses where the range of a page ends. etcd visits all keys of a range to
// count them, whatever the limit: pages of all that is left would cost the square of
// what there is, and none could be asked for before the last one has come. So a range is
// to have a page, by how dense the last keys were. A key is taken for a number, a
// fraction of all that can follow the prefix.
type keyRange struct {
	prefix string
	// width is how far a range goes; nil is to the end.
	width *big.Int
	// widen is by how many bits the next range is wider if this one has no keys.
	widen uint
}

const (
	// reachDigits is how many bytes of a key, behind the prefix, its number has.
	reachDigits = 160
	// widenFirst is by how many bits the range behind one without keys is wider: a
	// character. Behind each more it is twice as many.
	widenFirst = 8
)

func (r *keyRange) number(key string) *big.Int {
	var digits [reachDigits]byte
	copy(digits[:], key[len(r.prefix):])
	return new(big.Int).SetBytes(digits[:])
}

// from is the end of the range that begins at a key, at most a limit.
func (r *keyRange) from(key, limit string) string {
	if r.width == nil {
		return limit
	}
	to := r.number(key)
	if to.Add(to, r.width); to.BitLen() > 8*reachDigits {
		return limit
	}
	return min(limit, r.prefix+string(bytes.TrimRight(to.FillBytes(make([]byte, reachDigits)), "\x00")))
}

// read learns from a range how far the next one is to go to have so many keys. If there
// was more in it than was read, the second half of that tells how dense keys are.
func (r *keyRange) read(kvs []*mvccpb.KeyValue, more bool, keys int64) {
	n := len(kvs)
	if n > 0 {
		r.widen = widenFirst
	}
	switch {
	case more:
		r.width = r.number(string(kvs[n-1].Key))
		r.width.Sub(r.width, r.number(string(kvs[n/2].Key)))
		r.scale(keys, int64(n-n/2))
	case r.width == nil:
	case n == 0:
		r.width.Lsh(r.width, r.widen)
		r.widen *= 2
	default:
		r.scale(keys, int64(n))
	}
	if r.width != nil && r.width.BitLen() > 8*reachDigits {
		r.width = nil
	}
}

// scale multiplies the width by a fraction, and leaves at least one.
func (r *keyRange) scale(by, of int64) {
	r.width.Div(r.width.Mul(r.width, big.NewInt(by)), big.NewInt(of))
	if r.width.Sign() == 0 {
		r.width.SetInt64(1)
	}
}
