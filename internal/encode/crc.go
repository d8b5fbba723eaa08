package encode

import "hash/crc32"

// A CRC is a polynomial over GF(2) modulo the IEEE one; appending n bytes
// multiplies what came before by x^(8n). So crc(a‖b) = crc(a)·x^(8·len b) ⊕
// crc(b), and x^(8n) takes one multiplication for each bit of n
// (Ross Williams, "A painless guide to CRC error detection algorithms", and
// zlib's crc32_combine).

// crcPowers[k] is x^(8·2^k) modulo the polynomial, bits reversed as in hash/crc32.
var crcPowers = func() (powers [63]uint32) {
	powers[0] = 1 << (31 - 8)
	for k := 1; k < len(powers); k++ {
		powers[k] = crcMultiply(powers[k-1], powers[k-1])
	}
	return powers
}()

// combineCRC32 returns the checksum of two runs of bytes, one after the other,
// the second sizeB long.
func combineCRC32(a, b uint32, sizeB int64) uint32 {
	for k := 0; sizeB > 0; k, sizeB = k+1, sizeB>>1 {
		if sizeB&1 == 1 {
			a = crcMultiply(a, crcPowers[k])
		}
	}
	return a ^ b
}

// crcMultiply multiplies two polynomials modulo the IEEE one. The highest bit
// is x^0.
func crcMultiply(a, b uint32) uint32 {
	var product uint32
	for mask := uint32(1) << 31; mask != 0; mask >>= 1 {
		if a&mask != 0 {
			product ^= b
		}
		if b&1 == 1 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return product
}
