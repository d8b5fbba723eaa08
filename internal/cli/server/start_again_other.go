//go:build !unix

package server

// startAgain returns the reason why the program must be started again: this system cannot replace
// a process.
func startAgain(reason error) error { return reason }
