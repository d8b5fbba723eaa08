// Package verify checks what an API server promises to readers, while clients read and write
// it. Any server can be checked, ours or Kubernetes' own, and several servers of one cluster.
//
//	writers ──┐                 ┌─ truth: all versions of all objects, by revision
//	readers ──┼── record ───────┤
//	watchers ─┘                 └─ checks, each of one promise ──► report
//
// A run writes in a namespace and a definition of its own. No two writes have the same value,
// so the value in a read names the write that the read shows. Each promise has one check, and
// docs/verify.md says what each promise is and what it is based on. A story is the list of
// requests, answers and frames that shows one violation.
//
// To begin reading, see Run, then run.newTruth, then run.checkRecord. The package causes no
// faults: it checks whatever the servers do while it runs.
package verify
