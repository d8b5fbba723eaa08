package encode

import "hash/crc32"

// A CRC is a polynomial over GF(2) modulo the IEEE polynomial. To append n bytes multiplies
// the polynomial before them by x^(8n). So crc(a‖b) = crc(a)·x^(8·len b) ⊕ crc(b), and
// x^(8n) takes one multiplication for each bit of n. See Ross Williams, "A painless guide to
// CRC error detection algorithms", and zlib's crc32_combine.

// crcPowers[k] is x^(8·2^k) modulo the polynomial, bits reversed as in hash/crc32.
var crcPowers = func() (powers [63]uint32) {
	powers[0] = 1 << (31 - 8)
	for k := 1; k < len(powers); k++ {
		powers[k] = crcMultiply(powers[k-1], powers[k-1])
	}
	return powers
}()

// combineCRC32 returns the checksum of two runs of bytes, one after the other. a and b are
// their checksums, sizeB is the length of the second.
func combineCRC32(a, b uint32, sizeB int64) uint32 {
	return crcMultiply(a, crcPower(sizeB)) ^ b
}

// crcPower returns x^(8n).
func crcPower(n int64) uint32 {
	power := uint32(1) << 31
	for k := 0; n > 0; k, n = k+1, n>>1 {
		if n&1 == 1 {
			power = crcMultiply(power, crcPowers[k])
		}
	}
	return power
}

// crcMultiply multiplies two polynomials modulo the IEEE polynomial. The highest bit is
// x^0. The loop has no branches, because half of them would be mispredicted.
func crcMultiply(a, b uint32) uint32 {
	var product uint32
	for range 32 {
		product ^= b & uint32(int32(a)>>31)
		a <<= 1
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
