package deflate

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

const (
	// window is how far back a match may be.
	window = 32 << 10
	// minMatch and maxMatch bound the length of a match. Shorter ones are not looked for.
	minMatch = 4
	maxMatch = 258
	// farDistance is a distance beyond which a match of minMatch takes more bits than its
	// bytes.
	farDistance = 512
	// goodMatch is the length from which a match at the last distance is preferred to farther
	// ones.
	goodMatch = 32
	// The first matchStart places of a match are added to the table, and after them one in
	// matchStride.
	matchStart  = 4
	matchStride = 24
	// After patience bytes without a match the search skips up to maxSkip bytes at a time. How
	// many depends on the bytes, so that it comes to the same places where they are repeated.
	patience = 64
	maxSkip  = 7
	// The table has 1<<hashBits places. It should stay in the processor's nearest caches.
	hashBits = 13
	// blockTokens is about how many tokens a block has. Each block has codes of its own.
	blockTokens = 1 << 14
	// maxRun bounds the bytes that become matches in one step, so that a block keeps its size.
	maxRun = 1 << 16
	// maxInput is the longest input whose places a table can hold.
	maxInput = 1 << 28
)

// encoder compresses one input after another.
type encoder struct {
	// table has, by the hash of some bytes, where they were last, plus base.
	table [1 << hashBits]uint32
	// base is larger than all that earlier inputs have left in the table.
	base uint32
	// tokens are the tokens of the block that is being made.
	tokens []token
	// uses says how often the block has each symbol.
	uses symbolUses
	// start is where the block begins in the input.
	start  int
	writer blockWriter
}

var encoders = sync.Pool{New: func() any { return &encoder{base: 1, tokens: make([]token, 0, blockTokens+blockTokens/4)} }}

// Append appends src to dst, in blocks that refer to nothing before src and end on a byte
// boundary. None of them is the last one of a stream.
func Append(dst, src []byte) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	for len(src) > 0 {
		part := src[:min(len(src), maxInput)]
		dst = e.append(dst, part)
		src = src[len(part):]
	}
	return dst
}

// append appends an input of up to maxInput bytes.
func (e *encoder) append(dst, src []byte) []byte {
	if e.base > 1<<31 {
		e.table, e.base = [1 << hashBits]uint32{}, 1
	}
	e.start = 0
	e.writer.begin(dst)
	at := e.matches(src)
	e.literals(src, at, len(src))
	e.endBlock(src, len(src))
	e.base += uint32(len(src))
	return e.writer.end()
}

// matches makes tokens of src. It returns from where on the bytes have none yet.
func (e *encoder) matches(src []byte) int {
	var done, last int // Bytes before done have tokens. last is the last distance.
	for at := 0; at <= len(src)-8; {
		from, n := e.find(src, at, last)
		if n == 0 {
			if at++; at-done > patience {
				at += int(src[at-1] & maxSkip)
			}
			continue
		}
		for at > done && from > 0 && src[at-1] == src[from-1] {
			at, from, n = at-1, from-1, n+1
		}
		e.literals(src, done, at)
		n, last = min(n, maxRun), at-from
		e.match(n, last)
		e.remember(src, at, at+n)
		at += n
		done = at
		if len(e.tokens) >= blockTokens {
			e.endBlock(src, done)
		}
	}
	return done
}

// remember adds places in a match to the table. It adds the places at its beginning, where
// the search in the next object will look, and a few of the others.
func (e *encoder) remember(src []byte, from, to int) {
	to = min(to, len(src)-7)
	for i := from; i < min(from+matchStart, to); i++ {
		e.table[hash(load(src, i))] = e.base + uint32(i)
	}
	for i := from + matchStride; i < to; i += matchStride {
		e.table[hash(load(src, i))] = e.base + uint32(i)
	}
}

// find returns from where the bytes at src[at:] are repeated, and how many. It returns
// 0 bytes if they are not worth a match. last is the distance that is tried first. It
// is 0 if there is none.
func (e *encoder) find(src []byte, at, last int) (from, n int) {
	word := load(src, at)
	slot := &e.table[hash(word)]
	candidate := *slot
	*slot = e.base + uint32(at)
	if last > 0 && last <= at {
		if differ := word ^ load(src, at-last); uint32(differ) == 0 {
			from, n = at-last, matchLength(src, at, at-last)
		}
	}
	if candidate < e.base {
		return from, n
	}
	hashed := int(candidate - e.base)
	distance := at - hashed
	if distance > window || n >= goodMatch && distance >= last || uint32(word^load(src, hashed)) != 0 {
		return from, n
	}
	hashedLength := matchLength(src, at, hashed)
	switch {
	case hashedLength > n && (hashedLength > minMatch || distance < farDistance):
		return hashed, hashedLength
	case hashedLength == n && distance < last: // a nearer match takes fewer bits
		return hashed, hashedLength
	}
	return from, n
}

// matchLength returns how many bytes at two places are equal. from is before at.
func matchLength(src []byte, at, from int) int {
	later := src[at:]
	earlier := src[from:][:len(later)]
	n := 0
	for ; n <= len(later)-8; n += 8 {
		if differ := binary.LittleEndian.Uint64(later[n:n+8]) ^ binary.LittleEndian.Uint64(earlier[n:n+8]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
	}
	for n < len(later) && later[n] == earlier[n] {
		n++
	}
	return n
}

func load(src []byte, at int) uint64 { return binary.LittleEndian.Uint64(src[at:]) }

// hash returns the hash of the first five of eight bytes. The multiplier is an odd constant
// without structure.
func hash(word uint64) uint64 { return word << 24 * 0x9e3779b97f4a7c15 >> (64 - hashBits) }

// literals adds src[from:to] as they are.
func (e *encoder) literals(src []byte, from, to int) {
	for from < to {
		part := src[from:min(to, from+blockTokens)]
		for _, b := range part {
			e.tokens = append(e.tokens, token(b))
			e.uses.literals[b]++
		}
		if from += len(part); len(e.tokens) >= blockTokens {
			e.endBlock(src, from)
		}
	}
}

// match adds a repetition of n bytes, which may be longer than one match.
func (e *encoder) match(n, distance int) {
	d := uint32(distance - 1)
	symbol, _, _ := distanceSymbol(d)
	for n > 0 {
		part := min(n, maxMatch)
		if rest := n - part; rest > 0 && rest < 3 {
			part -= 3 // No match is shorter than 3.
		}
		e.tokens = append(e.tokens, matchToken(part, d))
		e.uses.literals[firstLength+uint16(lengthSymbols[part-3])]++
		e.uses.distances[symbol]++
		n -= part
	}
}

// endBlock writes the block that ends before src[end].
func (e *encoder) endBlock(src []byte, end int) {
	if end > e.start {
		e.writer.write(src[e.start:end], e.tokens, &e.uses)
	}
	e.start, e.tokens, e.uses = end, e.tokens[:0], symbolUses{}
}
