// Package checkpoint keeps on disk what a cache holds. At the next start a feed loads the
// checkpoint in place of the source's objects, and follows from the checkpoint's revision on.
//
//	cache.Contents ──Dir.Write──► file ──Dir.Open──► File ──feed.Checkpoint──► feed
//
// The caller writes each checkpoint seldom and in the background, under a name and with a
// text that says where the objects come from. Only a checkpoint with the same text is
// opened again. A file is replaced in one step. A damaged file is found by its digest at the
// end of Load, so the caller must not serve what it was given before that.
//
// The package is no journal: changes after the last checkpoint come from the source. It
// encrypts nothing. Resources that the cache has decrypted are left out. A cache that follows an
// API does not know what is encrypted in etcd: the caller leaves those resources out.
//
// Layout of a file:
//
//	"millrace checkpoint 1\n"
//	block          a Header as JSON
//	block …        objects: length and bytes of the key, revision, length and bytes of the value
//	4 zero bytes   in place of a block's length
//	SHA-256        of all bytes before
//
// A block is the length of what follows, in 4 bytes, and its content as an S2 block.
// Numbers of objects are varints.
package checkpoint
