package deflate

// Code lengths are written by symbols of their own (RFC 1951, 3.2.7): a length itself, or a
// repetition.
const (
	repeatLast      = 16 // the last length 3 to 6 times
	repeatZero      = 17 // no code 3 to 10 times
	repeatZeroLong  = 18 // no code 11 to 138 times
	lengthCodeCount = 19
)

// lengthOrder is the order in which the lengths of the codes of lengths are written.
var lengthOrder = [lengthCodeCount]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// headerSymbol is a symbol of the header, and the bits after it: their number and value.
type headerSymbol struct{ symbol, extra, value uint8 }

// header tells the codes of a block.
type header struct {
	// literals and distances are the numbers of symbols whose code lengths are written.
	literals, distances int
	// all is the memory for these code lengths.
	all [literalSymbols + distanceSymbols]uint8
	// symbols stand for the code lengths, in order. codes are the codes of symbols.
	symbols []headerSymbol
	codes   [lengthCodeCount]code
	// lengths is how many lengths of codes are written, in lengthOrder.
	lengths int
}

// set prepares the header of a block with these codes.
func (h *header) set(literals, distances []code) {
	h.literals, h.distances = usedCodes(literals), usedCodes(distances)
	all := h.all[:0]
	for _, c := range literals[:h.literals] {
		all = append(all, c.size)
	}
	for _, c := range distances[:h.distances] {
		all = append(all, c.size)
	}
	h.symbols = h.symbols[:0]
	for i := 0; i < len(all); {
		run := 1
		for i+run < len(all) && all[i+run] == all[i] {
			run++
		}
		h.addRun(all[i], run)
		i += run
	}
	var uses [lengthCodeCount]uint32
	for _, s := range h.symbols {
		uses[s.symbol]++
	}
	setCodes(h.codes[:], uses[:], maxLengthBits)
	const minLengths = 4
	h.lengths = lengthCodeCount
	for h.lengths > minLengths && h.codes[lengthOrder[h.lengths-1]].size == 0 {
		h.lengths--
	}
}

// usedCodes returns how many codes there are up to the last one that is used.
func usedCodes(codes []code) int {
	n := len(codes)
	for codes[n-1].size == 0 {
		n--
	}
	return n
}

// addRun adds a code length that occurs several times in a row.
func (h *header) addRun(length uint8, run int) {
	if length > 0 {
		h.symbols = append(h.symbols, headerSymbol{symbol: length})
		run--
	}
	for run > 0 {
		s, n := headerSymbol{symbol: length}, 1
		switch {
		case run < 3:
		case length > 0:
			n = min(run, 6)
			s = headerSymbol{repeatLast, 2, uint8(n - 3)}
		case run < 11:
			n = run
			s = headerSymbol{repeatZero, 3, uint8(n - 3)}
		default:
			n = min(run, 138)
			s = headerSymbol{repeatZeroLong, 7, uint8(n - 11)}
		}
		h.symbols = append(h.symbols, s)
		run -= n
	}
}

// size returns how many bits the block has besides its tokens.
func (h *header) size() int {
	size := 3 + 5 + 5 + 4 + 3*h.lengths
	for _, s := range h.symbols {
		size += int(h.codes[s.symbol].size + s.extra)
	}
	return size
}

// write appends the header.
func (h *header) write(out *bitBuffer) {
	out.add(uint64(h.literals-firstLength), 5)
	out.add(uint64(h.distances-1), 5)
	out.add(uint64(h.lengths-4), 4)
	for _, symbol := range lengthOrder[:h.lengths] {
		out.add(uint64(h.codes[symbol].size), 3)
	}
	for _, s := range h.symbols {
		c := h.codes[s.symbol]
		out.add(uint64(c.bits), uint(c.size))
		out.add(uint64(s.value), uint(s.extra))
	}
}
