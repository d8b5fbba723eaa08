// Package changingupstream is an API server whose world changes: definitions are changed,
// deleted and made again while their objects are written, by a script that a seed decides. It
// records what the server answers in each state of the world, so that a test can say of any
// answer of a replica in front of it whether the server would have given it.
//
//	Script ──changes, writes──► upstream ◄──reads── replicas ◄── clients of a test
//	   │                            │ etcd
//	   └── Record ◄─────────────────┴── Follower (package etcdtruth)
//
// A definition has Generations. All its versions are deprecated, with a warning that names the
// generation: so each answer says of itself of which state of the definition it is, and the
// warning costs the objects nothing. A Script writes an object and reads it in all versions
// before the next change comes, and reads all objects behind each change. So nearly every
// version of every object is recorded in every generation that it has lived in. What is not
// is asked for when it is needed.
//
// Tests that only need definitions that change at random use Shape alone.
package changingupstream
