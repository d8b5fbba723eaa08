package server

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/tool/display"
)

// logFileName is the log of a server that was started at a terminal, in its data directory.
const logFileName = "millrace.log"

// logToFile redirects standard error from a terminal to a file in dir, unless the user has asked
// for the log with -v. It returns the file's path, or "" if nothing changed.
// Errors of the command are still printed to the terminal.
//
// The file takes the terminal's descriptor, since Kubernetes, etcd and Go's runtime each write
// to that descriptor in their own way.
func logToFile(cmd *cobra.Command, dir string) (name string, err error) {
	if cmd.Flags().Changed("v") || !display.IsTerminal(os.Stderr) {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of the log: %w", err)
	}
	name = filepath.Join(dir, logFileName)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("open the log: %w: give -v=2 to have it at the terminal", err)
	}
	defer file.Close()
	terminal, err := unix.Dup(unix.Stderr)
	if err != nil {
		return "", fmt.Errorf("open the terminal again: %w", err)
	}
	unix.CloseOnExec(terminal)
	if err := unix.Dup3(int(file.Fd()), unix.Stderr, 0); err != nil {
		return "", fmt.Errorf("write the log to %s: %w", name, err)
	}
	cli.PrintErrorsTo(os.NewFile(uintptr(terminal), "terminal"))
	return name, nil
}
