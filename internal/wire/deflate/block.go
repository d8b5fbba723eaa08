package deflate

import (
	"encoding/binary"
	"slices"
)

// The types of blocks, as their three first bits. None is the last of its stream.
const (
	storedBlock  = 0 << 1
	dynamicBlock = 2 << 1
)

// maxStored is the largest stored block in bytes.
const maxStored = 1<<16 - 1

// blockWriter appends blocks to a buffer.
type blockWriter struct {
	out bitBuffer
	// literals and distances are the codes of the block that is being written.
	literals  [literalSymbols]code
	distances [distanceSymbols]code
	header    header
}

// begin appends to dst from now on.
func (w *blockWriter) begin(dst []byte) { w.out = bitBuffer{bytes: dst} }

// end appends an empty stored block, and so ends on a byte boundary. It returns the buffer.
func (w *blockWriter) end() []byte {
	w.store(nil)
	dst := w.out.bytes
	w.out = bitBuffer{}
	return dst
}

// write appends a block. src is what its tokens stand for. If codes would not make it smaller,
// the block has src as it is.
func (w *blockWriter) write(src []byte, tokens []token, uses *symbolUses) {
	uses.literals[endOfBlock] = 1
	setCodes(w.literals[:], uses.literals[:], maxCodeBits)
	setCodes(w.distances[:], uses.distances[:], maxCodeBits)
	w.header.set(w.literals[:], w.distances[:])
	size := w.header.size() + w.contentSize(uses)
	if size >= 8*len(src) {
		w.store(src)
		return
	}
	w.out.reserve(size/8 + 1)
	w.out.add(dynamicBlock, 3)
	w.header.write(&w.out)
	w.writeTokens(tokens)
}

// contentSize returns how many bits the tokens of a block take.
func (w *blockWriter) contentSize(uses *symbolUses) int {
	size := 0
	for symbol, n := range uses.literals {
		bits := uint(w.literals[symbol].size)
		if symbol >= firstLength {
			bits += uint(lengthExtra[symbol-firstLength])
		}
		size += int(bits * uint(n))
	}
	for symbol, n := range uses.distances {
		extra := max(symbol/2, 1) - 1
		size += (int(w.distances[symbol].size) + extra) * int(n)
	}
	return size
}

// writeTokens appends tokens and the end of their block. It is the inner loop of all, so it
// has the bits in variables of its own. The buffer has room for them.
func (w *blockWriter) writeTokens(tokens []token) {
	to, word, n := w.out.bytes, w.out.word, w.out.n
	end := len(to)
	to = to[:cap(to)]
	for _, t := range tokens {
		if t < endOfBlock {
			c := w.literals[t]
			word |= uint64(c.bits) << n
			n += uint(c.size)
		} else {
			length := uint32(t>>lengthShift) & 0xff
			symbol := lengthSymbols[length]
			c := w.literals[firstLength+uint16(symbol)]
			word |= uint64(c.bits) << n
			n += uint(c.size)
			// The first length of a symbol has zeros in the bits that tell its lengths apart.
			// The first symbols and the last one have no such bits.
			extra := uint(lengthExtra[symbol])
			word |= uint64(length&(1<<extra-1)) << n
			n += extra
			s, extra, value := distanceSymbol(uint32(t) & (window - 1))
			c = w.distances[s]
			word |= uint64(c.bits) << n
			n += uint(c.size)
			word |= uint64(value) << n
			n += extra
		}
		binary.LittleEndian.PutUint64(to[end:], word)
		end += int(n >> 3)
		word >>= n &^ 7
		n &= 7
	}
	w.out = bitBuffer{bytes: to[:end], word: word, n: n}
	c := w.literals[endOfBlock]
	w.out.add(uint64(c.bits), uint(c.size))
}

// store appends src as it is. It ends on a byte boundary, also without src.
func (w *blockWriter) store(src []byte) {
	for {
		part := src[:min(len(src), maxStored)]
		src = src[len(part):]
		w.out.reserve(len(part) + 8)
		w.out.add(storedBlock, 3)
		w.out.align()
		w.out.bytes = binary.LittleEndian.AppendUint16(w.out.bytes, uint16(len(part)))
		w.out.bytes = binary.LittleEndian.AppendUint16(w.out.bytes, ^uint16(len(part)))
		w.out.bytes = append(w.out.bytes, part...)
		if len(src) == 0 {
			return
		}
	}
}

// bitBuffer is a buffer that bits are appended to. n bits, fewer than 8, are still in word.
type bitBuffer struct {
	bytes []byte
	word  uint64
	n     uint
}

// reserve makes room for n bytes, and for a word after them.
func (b *bitBuffer) reserve(n int) { b.bytes = slices.Grow(b.bytes, n+8) }

// add appends size bits, 48 at most.
func (b *bitBuffer) add(value uint64, size uint) {
	b.word |= value << b.n
	for b.n += size; b.n >= 8; b.n -= 8 {
		b.bytes = append(b.bytes, byte(b.word))
		b.word >>= 8
	}
}

// align appends zeros up to a byte boundary.
func (b *bitBuffer) align() {
	if b.n > 0 {
		b.bytes = append(b.bytes, byte(b.word))
		b.word, b.n = 0, 0
	}
}
