//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// startAgain replaces the process by a new one of the same program, with the same arguments. It
// returns only if that fails.
func startAgain(reason error) error {
	path, err := os.Executable()
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	return errors.Join(reason, fmt.Errorf("start the program again: %w", err))
}
