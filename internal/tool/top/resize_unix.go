//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
)

// watchResizes returns a channel that receives a signal when the terminal's size
// changes, and a function that stops these signals.
func watchResizes() (<-chan os.Signal, func()) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	return changes, func() { signal.Stop(changes) }
}
