// Package checkpoint keeps on disk what a cache holds. So the next start needs no load
// from the source: a feed loads the checkpoint and follows from its revision on.
//
//	cache.Contents ──Dir.Write──► file ──Dir.Open──► File ──feed.Checkpoint──► feed
//
// The caller writes each checkpoint seldom and in the background, under a name and with a
// text that says where the objects come from. Only a checkpoint with the same text is
// opened again. A file is replaced in one step, and a damaged one is found by its digest
// before a reader can see any of its objects.
//
// The package is no journal: changes after the last checkpoint come from the source. It
// encrypts nothing. Objects that are stored encrypted are left out, so a file never holds
// more in plain than etcd does.
//
// Layout of a file:
//
//	"millrace checkpoint 1\n"
//	block          a Header as JSON
//	block …        objects: length and bytes of the key, revision, length and bytes of the value
//	4 zero bytes
//	SHA-256 of all bytes before
//
// A block is the length of what follows, in 4 bytes, and its content as an S2 block.
// Numbers of objects are varints.
package checkpoint
