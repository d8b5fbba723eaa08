//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
)

// watchResizes tells of changes of the terminal's size until it is stopped.
func watchResizes() (<-chan os.Signal, func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	return changes, func() { signal.Stop(changes) }
}
