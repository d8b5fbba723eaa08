package entry

import (
	"bytes"
	"encoding/binary"
)

// Normal is an object as Kubernetes would store it now, where its stored bytes differ from
// that. An older version has stored it, or defaulting adds a field each time that it is
// read. Normal has the edits that turn the stored bytes into the normal ones. It is
// immutable.
type Normal struct {
	// owner identifies what has found the normal form. Another owner may find other bytes,
	// because a definition has changed.
	owner any
	// edits are triples of numbers, as varints. They say how many stored bytes are kept,
	// how many are left out, and how many follow in the edits themselves. edits is nil if
	// the entry has no normal form.
	edits []byte
}

const (
	// blockSize is the length of bytes that are looked for in the stored ones. Shorter
	// equal pieces are part of the edits.
	blockSize = 16
	// Edits have at most maxEdits bytes, and one for each maxEditsShare stored bytes.
	maxEdits      = 256
	maxEditsShare = 8
)

// NewNormal makes the Normal of stored bytes. The Normal has no edits if the bytes are
// equal, or if the edits would be long (maxEdits, maxEditsShare).
func NewNormal(owner any, stored, normal []byte) *Normal {
	n := &Normal{owner: owner}
	if bytes.Equal(stored, normal) {
		return n
	}
	most := maxEdits + len(stored)/maxEditsShare
	if edits, ok := difference(stored, normal, most); ok {
		n.edits = bytes.Clone(edits)
	}
	return n
}

// Edited reports whether the normal bytes differ from the stored ones, and are known.
func (n *Normal) Edited() bool { return n.edits != nil }

// SetNormal records the normal form of the entry.
func (e *Entry) SetNormal(n *Normal) { e.normal.Store(n) }

// NormalOf returns the normal form that an owner has found. It returns nil if the owner
// has not looked yet.
func (e *Entry) NormalOf(owner any) *Normal {
	if n := e.normal.Load(); n != nil && n.owner == owner {
		return n
	}
	return nil
}

// ReadNormal is Read with the normal bytes if the owner has found some that differ from the
// stored bytes, and otherwise with the stored bytes. edited tells which.
func (e *Entry) ReadNormal(owner any, use func(value []byte, edited bool) error) error {
	n := e.NormalOf(owner)
	if n == nil || !n.Edited() {
		return e.Read(func(value []byte) error { return use(value, false) })
	}
	return e.Read(func(value []byte) error {
		scratch := takeScratch()
		defer scratch.release()
		scratch.buf = n.append(scratch.buf[:0], value)
		return use(scratch.buf, true)
	})
}

// append appends the normal bytes.
func (n *Normal) append(dst, stored []byte) []byte {
	for edits := n.edits; len(edits) > 0; {
		var kept, omitted, written int
		kept, edits = number(edits)
		omitted, edits = number(edits)
		written, edits = number(edits)
		dst = append(dst, stored[:kept]...)
		dst = append(dst, edits[:written]...)
		stored, edits = stored[kept+omitted:], edits[written:]
	}
	return append(dst, stored...)
}

func number(edits []byte) (value int, rest []byte) {
	v, n := binary.Uvarint(edits)
	return int(v), edits[n:]
}

// difference returns the edits that turn from into to. It returns false if the edits are
// longer than most.
func difference(from, to []byte, most int) (edits []byte, ok bool) {
	var blocks *textBlocks
	kept := CommonPrefix(from, to)
	read, to := kept, to[kept:]
	for read < len(from) || len(to) > 0 {
		next, written := findNear(from, to, read)
		if next < 0 {
			if blocks == nil {
				blocks = blocksOf(from)
			}
			next, written = blocks.find(to[:min(len(to), most)], read)
		}
		if next < 0 { // only the ends may be equal
			end := commonSuffix(from[read:], to)
			next, written = len(from)-end, len(to)-end
		} else { // what is equal may begin before the block
			before := commonSuffix(from[read:next], to[:written])
			next, written = next-before, written-before
		}
		edits = appendEdit(edits, kept, next-read, to[:written])
		if len(edits) > most {
			return nil, false
		}
		read, to = next, to[written:]
		kept = CommonPrefix(from[read:], to)
		read, to = read+kept, to[kept:]
	}
	return edits, true
}

// nearBytes is how far findNear looks. A field that comes back is rarely longer.
const nearBytes = 48

// findNear is find for places that are near in both texts, as after a length that has changed
// or a field that came back. It needs no index of the text.
func findNear(text, other []byte, from int) (at, in int) {
	text = text[from:]
	for sum := 1; sum <= nearBytes; sum++ {
		for in := max(0, sum-len(text)+blockSize); in <= min(sum, len(other)-blockSize); in++ {
			if at := sum - in; [blockSize]byte(text[at:]) == [blockSize]byte(other[in:]) {
				return from + at, in
			}
		}
	}
	return -1, 0
}

// textBlocks says where the blocks of a text are. first has the first of equal blocks. next
// has for each block the next one that is equal to it, or -1.
type textBlocks struct {
	first map[[blockSize]byte]int
	next  []int
}

func blocksOf(text []byte) *textBlocks {
	n := len(text) / blockSize
	b := &textBlocks{make(map[[blockSize]byte]int, n), make([]int, n)}
	for i := n - 1; i >= 0; i-- {
		block := [blockSize]byte(text[i*blockSize:])
		b.next[i] = -1
		if later, ok := b.first[block]; ok {
			b.next[i] = later
		}
		b.first[block] = i
	}
	return b
}

// find looks for a block of the text, from the offset from on, that occurs in other. It returns
// the block's offset at in the text and its offset in in other. Of all such blocks it chooses
// the one before which least is left out of both texts. It returns -1 if there is none. from
// must not be less than in an earlier call.
func (b *textBlocks) find(other []byte, from int) (at, in int) {
	at, least := -1, len(b.next)*blockSize+len(other)
	for i := 0; i+blockSize <= len(other) && i < least; i++ {
		block := [blockSize]byte(other[i:])
		n, ok := b.first[block]
		for ok && n >= 0 && n*blockSize < from {
			n = b.next[n]
			b.first[block] = n // no later call asks for the blocks before
		}
		if ok && n >= 0 && n*blockSize-from+i < least {
			at, in, least = n*blockSize, i, n*blockSize-from+i
		}
	}
	return at, in
}

func appendEdit(edits []byte, kept, omitted int, written []byte) []byte {
	for _, n := range []int{kept, omitted, len(written)} {
		edits = binary.AppendUvarint(edits, uint64(n))
	}
	return append(edits, written...)
}

// CommonPrefix returns how many bytes two texts have in common from the beginning.
func CommonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[len(a)-1-i] != b[len(b)-1-i] {
			return i
		}
	}
	return n
}
