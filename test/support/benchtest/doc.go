// Package benchtest is for the tests of the subcommands of "bench": an API server
// that answers their requests, a binary that they can run, and golden files.
//
// A package's TestMain calls Main. Then Run executes a subcommand as a user would. The
// servers that the subcommand starts are the test binary itself, in which Main acts as
// "millrace serve" (an API), "millrace-lab fill" and the hidden commands of "bench".
// Flags of "serve" make the API fail in a chosen way.
package benchtest
