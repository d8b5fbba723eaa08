package deflate

import "math/bits"

// token is a literal byte, or a match: isMatch, its length minus 3, and its distance minus 1.
type token uint32

const (
	isMatch     = 1 << 31
	lengthShift = 15
)

func matchToken(length int, distance uint32) token {
	return isMatch | token(length-3)<<lengthShift | token(distance)
}

// The symbols of a block (RFC 1951, 3.2.5).
const (
	// endOfBlock and the lengths of matches are symbols after the literals.
	endOfBlock      = 256
	firstLength     = 257
	literalSymbols  = 286
	distanceSymbols = 30
)

// symbolUses says how often a block has each symbol.
type symbolUses struct {
	literals  [literalSymbols]uint32
	distances [distanceSymbols]uint32
}

// lengthSymbols has the symbol of each length minus 3, counted from firstLength. Lengths of
// one symbol are told apart by lengthExtra bits.
var lengthSymbols, lengthExtra = func() (symbols [256]uint8, extra [29]uint8) {
	for length := range uint32(255) {
		if length < 8 {
			symbols[length] = uint8(length)
			continue
		}
		n := bits.Len32(length) - 3
		symbols[length] = uint8(4*n + 4 + int(length>>n&3))
		extra[symbols[length]] = uint8(n)
	}
	symbols[255] = 28 // The longest match has a symbol of its own.
	return symbols, extra
}()

// distanceSymbol returns the symbol of a distance minus 1, and the number and value of the
// bits after it.
func distanceSymbol(distance uint32) (symbol uint8, extra uint, value uint32) {
	if distance < 4 {
		return uint8(distance), 0, 0
	}
	extra = uint(bits.Len32(distance)) - 2
	return uint8(2*extra + 2 + uint(distance>>extra&1)), extra, distance & (1<<extra - 1)
}
