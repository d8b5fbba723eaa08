// Package deflate compresses objects that are like the ones before them, in the format of
// RFC 1951. It is for the segments of lists: the pods of a workload differ in some names,
// addresses and times, and have all else in common.
//
// A general compressor looks up each place in a large hash table, because it knows nothing of
// its input. Here most bytes repeat the bytes of the object before, at the same distance for
// long stretches. So that distance is tried first, eight bytes at a time, and a small table
// of hashes finds the next distance where it changes. Little is added to the table inside of
// a repetition. docs/bench/list.md compares time and size with the library's levels.
//
// The cost: input that does not repeat itself like that is compressed a little worse than by a
// general compressor of the same speed.
//
// Callers append blocks, of which none is the last of a stream. What they put around them, and
// checksums, is their own business. The package does not decompress.
package deflate
