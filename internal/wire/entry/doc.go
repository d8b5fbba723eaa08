// Package entry holds the types that all layers share: a stored object as bytes
// (Entry), its labels and selectable fields (Attributes), its compression (Packing), one
// part of a selector (Term), the part of a resource that a shard selector asks for
// (Shard), and the guard against panics of foreign code (Panics).
//
// The types are values without goroutines or I/O. The package does not decode objects;
// the caller sets an entry's attributes before others can see the entry.
package entry
