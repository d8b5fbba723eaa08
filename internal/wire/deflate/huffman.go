package deflate

import (
	"math/bits"
	"slices"
)

const (
	// maxCodeBits bounds the codes of literals and distances. maxLengthBits bounds the
	// codes in which code lengths are written.
	maxCodeBits   = 15
	maxLengthBits = 7
)

// code is a Huffman code as it is written: its bits in order from the lowest, and how many.
type code struct {
	bits uint16
	size uint8
}

// setCodes makes codes of at most limit bits for symbols. uses says how often each is used. A
// symbol that is not used gets none, but at least two symbols get one: some decoders refuse
// fewer.
func setCodes(codes []code, uses []uint32, limit int) {
	var storage [literalSymbols]uint32
	// Frequency and symbol in one number, to be sorted. A block has fewer than 1<<20 tokens.
	const symbolBits = 9
	used := storage[:0]
	for symbol, n := range uses {
		codes[symbol] = code{}
		if n > 0 {
			used = append(used, n<<symbolBits|uint32(symbol))
		}
	}
	for symbol := 0; len(used) < 2; symbol++ {
		if uses[symbol] == 0 {
			used = append(used, 1<<symbolBits|uint32(symbol))
		}
	}
	slices.Sort(used)
	var counts [64]int // of codes, by their size
	countSizes(&counts, used, symbolBits)
	limitSizes(&counts, limit)
	// The rarest symbols have the longest codes.
	i := 0
	for size := limit; size > 0; size-- {
		for range counts[size] {
			codes[used[i]&(1<<symbolBits-1)].size = uint8(size)
			i++
		}
	}
	number(codes, &counts)
}

// countSizes counts the codes of each size in a Huffman tree. used has the symbols' frequencies
// above shift, in ascending order.
func countSizes(counts *[64]int, used []uint32, shift int) {
	// The leaves, in order, and after them the nodes that join two each. New nodes are at
	// least as heavy as earlier ones, so both are in order. The lightest of all is the
	// first leaf or the first node.
	var weights [2 * literalSymbols]uint32
	var parents [2 * literalSymbols]uint16
	leaves := len(used)
	for i, u := range used {
		weights[i] = u >> shift
	}
	leaf, node, root := 0, leaves, 2*leaves-2
	for made := leaves; made <= root; made++ {
		for range 2 {
			lightest := leaf
			if leaf == leaves || node < made && weights[node] < weights[leaf] {
				lightest = node
				node++
			} else {
				leaf++
			}
			weights[made] += weights[lightest]
			parents[lightest] = uint16(made)
		}
	}
	var depths [2 * literalSymbols]uint8
	for i := root - 1; i >= 0; i-- {
		if depths[i] = depths[parents[i]] + 1; i < leaves {
			counts[depths[i]]++
		}
	}
}

// limitSizes makes codes shorter that are longer than limit, and as few others longer as that
// takes.
func limitSizes(counts *[64]int, limit int) {
	// room is what is left of all codes of limit bits. It is negative if there are too many.
	room := 1 << limit
	for size := limit + 1; size < len(counts); size++ {
		counts[limit] += counts[size]
		counts[size] = 0
	}
	for size := 1; size <= limit; size++ {
		room -= counts[size] << (limit - size)
	}
	for ; room < 0; room++ {
		// A code of limit bits goes below a shorter one, which becomes two longer ones.
		size := limit - 1
		for counts[size] == 0 {
			size--
		}
		counts[size]--
		counts[size+1] += 2
		counts[limit]--
	}
}

// number gives codes their bits: codes of one size count up, in the order of the symbols.
func number(codes []code, counts *[64]int) {
	var next [maxCodeBits + 1]uint16
	for size := 1; size < maxCodeBits; size++ {
		next[size+1] = (next[size] + uint16(counts[size])) << 1
	}
	for i := range codes {
		if size := codes[i].size; size > 0 {
			codes[i].bits = bits.Reverse16(next[size] << (16 - size))
			next[size]++
		}
	}
}
