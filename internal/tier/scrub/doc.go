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
// Not ready is only a server that knows of another one that is.
//
// A caller makes one Scrubber for each cache over etcd, calls Run, asks Check for the
// server's readiness, and hands Observe the digests of others. The package knows nothing of
// how servers find each other: that is package peers.
package scrub
