//go:build !linux

package harness

// tempRoot returns the directory of temporary directories, "" for the default one.
func tempRoot() string { return "" }

// removeAbandoned does nothing: nothing is kept in memory on this system.
func removeAbandoned() {}
