package resource

import (
	"encoding/binary"
	"errors"
	"sync"
)

// errDamaged says that packed bytes are not what s2 makes.
var errDamaged = errors.New("damaged packed value")

// unpacker unpacks the values of one packing. Its buffer begins with the packing's dictionary,
// so that a repetition of the dictionary's bytes is one like any other. The library has two
// buffers, and asks for each repetition in which it is; its assembly has no dictionaries. This
// takes half of the time (docs/bench/resident.md). All values are unpacked once, and often
// twice, by a first LIST.
//
// A value is in the format of an s2 block: its length, and then literals and repetitions. The
// first distance is given by the dictionary.
type unpacker struct {
	packing *Packing
	buf     []byte
	// begin is where values begin in buf, which is where the dictionary ends.
	begin int
}

var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

func (u *unpacker) release() {
	if cap(u.buf) <= maxScratch {
		unpackers.Put(u)
	}
}

// margin is how many bytes behind a value may be written. Short copies are of fixed sizes.
const margin = 16

// use prepares the unpacker for a packing and a value of a size.
func (u *unpacker) use(p *Packing, size int) {
	if need := len(p.content) + size + margin; cap(u.buf) < need {
		u.packing, u.buf = nil, make([]byte, need+need/4)
	}
	u.buf = u.buf[:cap(u.buf)]
	if u.packing != p {
		u.packing, u.begin = p, copy(u.buf, p.content)
	}
}

// unpack returns the value of packed bytes, which is valid until the next call.
func (u *unpacker) unpack(p *Packing, packed []byte) ([]byte, error) {
	size, n := binary.Uvarint(packed)
	if n <= 0 || size > maxUnpacked {
		return nil, errDamaged
	}
	u.use(p, int(size))
	end := u.begin + int(size)
	if at := decode(u.buf, packed[n:], u.begin, end, p.distance); at != end {
		return nil, errDamaged
	}
	return u.buf[u.begin:end], nil
}

// maxUnpacked bounds the size of a value. etcd stores far smaller ones.
const maxUnpacked = 1 << 30

// The kinds of elements, in the two lowest bits of their first byte. A repetition has its
// distance in two ranges of bits, in two bytes or in four.
const (
	literalElement = 0
	nearElement    = 1
	midElement     = 2
	farElement     = 3
)

// decode writes the elements of src to dst[at:end], and returns where it came to, or -1 if they
// are damaged. dst has margin bytes behind end.
func decode(dst, src []byte, at, end, distance int) int {
	s := 0
	for s < len(src) {
		tag := src[s]
		var length int
		if tag&3 == literalElement {
			length, s = literalLength(src, s)
			if s < 0 || length > len(src)-s || length > end-at {
				return -1
			}
			if length <= 16 && s+16 <= len(src) {
				copy16(dst, src, at, s)
			} else {
				copy(dst[at:at+length], src[s:s+length])
			}
			at, s = at+length, s+length
			continue
		}
		var d int
		if length, d, s = repetition(src, s); s < 0 {
			return -1
		}
		if d > 0 {
			distance = d
		}
		if distance <= 0 || distance > at || length > end-at {
			return -1
		}
		repeat(dst, at, distance, length)
		at += length
	}
	return at
}

// literalLength reads the head of a literal at s. It returns where its bytes begin, or -1.
func literalLength(src []byte, s int) (length, next int) {
	length = int(src[s] >> 2)
	s++
	if length < 60 {
		return length + 1, s
	}
	n := length - 59 // bytes in which the length is written
	if n > len(src)-s {
		return 0, -1
	}
	length = 0
	for i := range n {
		length |= int(src[s+i]) << (8 * i)
	}
	return length + 1, s + n
}

// repetition reads a repetition at s. A distance of 0 means that of the last one. It returns
// where the next element begins, or -1.
func repetition(src []byte, s int) (length, distance, next int) {
	left := src[s:]
	tag := left[0]
	switch tag & 3 {
	case nearElement:
		if len(left) < 2 {
			return 0, 0, -1
		}
		length = int(tag >> 2 & 7)
		if distance = int(tag&0xe0)<<3 | int(left[1]); distance > 0 || length < 5 {
			return length + 4, distance, s + 2
		}
		n := length - 4 // bytes in which the length is written
		if len(left) < 2+n {
			return 0, 0, -1
		}
		base := [...]int{0, 8, 260, 65540}[n]
		length = 0
		for i := range n {
			length |= int(left[2+i]) << (8 * i)
		}
		return base + length, 0, s + 2 + n
	case midElement:
		if len(left) < 3 {
			return 0, 0, -1
		}
		length, distance, next = int(tag>>2)+1, int(binary.LittleEndian.Uint16(left[1:])), s+3
	default:
		if len(left) < 5 {
			return 0, 0, -1
		}
		length, distance, next = int(tag>>2)+1, int(binary.LittleEndian.Uint32(left[1:])), s+5
	}
	if distance == 0 {
		return 0, 0, -1
	}
	return length, distance, next
}

// repeat copies length bytes from a distance before a place, to which they may reach.
func repeat(dst []byte, at, distance, length int) {
	from := at - distance
	switch {
	case length <= 16 && distance >= 16:
		copy16(dst, dst, at, from)
	case distance >= length:
		copy(dst[at:at+length], dst[from:from+length])
	default:
		for i := range length {
			dst[at+i] = dst[from+i]
		}
	}
}

// copy16 copies 16 bytes.
func copy16(dst, src []byte, to, from int) {
	d, s := dst[to:to+16:to+16], src[from:from+16:from+16]
	a, b := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
	binary.LittleEndian.PutUint64(d, a)
	binary.LittleEndian.PutUint64(d[8:], b)
}
