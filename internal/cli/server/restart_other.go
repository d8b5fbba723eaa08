//go:build !unix

package server

// restartProcess returns reason unchanged, because this system cannot replace a process (exec). The
// command then fails with that error, and what supervises it must start the program again.
func restartProcess(reason error) error { return reason }
