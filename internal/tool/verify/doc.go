// Package verify checks what an API server promises to readers, while it is read and
// written: any server, ours or Kubernetes' own, and several servers of one cluster.
//
//	writers ──┐                 ┌─ truth: all versions of all objects, by revision
//	readers ──┼── history ──────┤
//	watchers ─┘                 └─ checks, each of one promise ──► report
//
// All that is written is in a namespace and a definition of its own. Every write has a
// value that no other write has, so a read tells which writes it has seen. Each promise has
// one check, and docs/verify.md says what each promise is and where it is from.
//
// The package is not for faults: it checks whatever the servers do while it runs.
package verify
