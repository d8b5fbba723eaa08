// Package entry holds the types that all layers share: a stored object as bytes (Entry), and
// its labels and selectable fields (Attributes). Packing is an object's compression. A Term is
// one part of a selector. A Shard is the part of a resource that a shard selector asks for.
package entry
