//go:build !linux

package harness

// awaitStop would return when a child that was sent SIGSTOP has stopped.
func awaitStop(int) error { return nil }
