//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// restartProcess replaces the process (exec) by a new one of the same program, with the same
// arguments. reason is why. restartProcess returns only if that fails.
func restartProcess(reason error) error {
	path, err := os.Executable()
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	return errors.Join(reason, fmt.Errorf("restart the program: %w", err))
}
