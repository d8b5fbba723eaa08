// Package mutation breaks the server on purpose, in one of the ways of Table, so that a test
// can say whether `millrace-tools verify` finds it.
//
// Only a build with the tag mutations can be broken, by the environment variable
// MILLRACE_MUTATION, and from the signal SIGUSR1 on. In every other build the functions of
// this package are constant: the compiler removes them, and what depends on them.
//
// Code that can be broken asks in one line, as in
//
//	if s.hasRevision(rv) || mutation.On(mutation.VersionNotAwaited) {
//
// A mutation is for the read path of the server. Faults of processes and networks need none,
// but a mutation may need a fault.
package mutation
