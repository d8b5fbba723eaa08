// Package scrub finds objects of a cache that are not what etcd has, and replaces them.
//
//	each interval     walk: are the objects those that the digest stands for?
//	each interval     another server's digest at a revision ──differs──► compare all keys
//	in some minutes   pages of etcd, with values, one after the other
//	                       │ differs, and again when it is read once more
//	                       ▼
//	               not ready ─► load the resource anew ─► compare ─► ready
//	                                  ▲                      │ differs, or fails
//	                                  └──── up to twice ─────┴─► ready, left alone for a time
//
// A server that knows of no other server that is ready stays ready meanwhile.
//
// A caller makes one Scrubber for each cache over etcd and calls Run. ReadyError is for the
// server's readiness, and CacheError for what servers tell each other. The caller hands Observe
// the digests of other servers. The package knows nothing of how servers find each other: that
// is package peers.
package scrub
