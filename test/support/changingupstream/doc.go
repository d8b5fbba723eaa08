// Package changingupstream runs scripts against an API server: they change, delete and recreate
// definitions while they write objects. A seed decides what a script does. The package records
// the server's answers in each state of the definitions. So a test can decide whether the server
// would have given an answer that a replica in front of it has given.
//
//	Script ──changes, writes──► upstream ◄──reads── replicas ◄── clients of a test
//	   │                            │ etcd
//	   └── Record ◄─────────────────┴── Follower (package etcdtruth)
//
// A definition has Generations. All its versions are deprecated, with a warning that names the
// generation. So each answer names the state of the definition by which the server has
// answered, without a change of the objects. A Script reads an object in all versions after
// each write, and all objects after each change of a definition. So nearly every version of
// every object is recorded in every generation of its life. An Upstream asks for the others
// when it needs them.
//
// Tests that only need definitions that change at random use Shape alone.
package changingupstream
