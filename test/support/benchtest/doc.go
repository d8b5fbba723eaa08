// Package benchtest is for the tests of the subcommands of "bench": an API server
// that answers what they ask for, a binary that they can run, and golden files.
//
// A package's TestMain calls Main. Then Run executes a subcommand as a user would,
// and the servers that it starts are the test binary itself: Main acts as
// "millrace serve" (an API), "millrace-lab fill" and the hidden commands of "bench".
// Flags of "serve" make the API fail in a chosen way.
package benchtest
