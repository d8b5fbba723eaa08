// Package cli is what the command lines of all programs have in common: how they run, what their
// errors look like, and their exit codes. Each program has a package of its own below it, which
// is the only place where its commands meet.
//
//	cmd/millrace        cli/server  servers, and Kubernetes' own components
//	cmd/millrace-tools  cli/tools   what a person runs against a log or a server
//	cmd/millrace-lab    cli/lab     loads and measurements
//
// The packages are not for what a command does, which is in the packages that they call.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// errorOutput is where errors of commands are printed.
var errorOutput io.Writer = os.Stderr

// PrintErrorsTo makes Run print errors of commands to w instead of stderr. It must not be called
// while Run runs.
func PrintErrorsTo(w io.Writer) { errorOutput = w }

// Program describes a program. Only First is optional.
type Program struct {
	Name, Short, Long string
	// Versions is the text that the command "version" prints, and that --version prints.
	Versions string
	// First has the names of the flags to begin with, by the name of the command. Usages list them
	// first, in this order.
	First map[string][]string
}

// NewRoot returns the root command of a program, with the command "version". The caller adds the
// other commands.
func NewRoot(p Program) *cobra.Command {
	root := &cobra.Command{Use: p.Name, Short: p.Short, Long: p.Long, SilenceUsage: true, SilenceErrors: true}
	root.SetUsageFunc(func(cmd *cobra.Command) error { return printUsage(cmd, p.First[cmd.Name()]) })
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), p.Versions)
			return err
		},
	})
	return root
}

// Run runs a command line, prints its error, and returns the exit code of the process: 1 for an
// error. An error with a method ExitCode has a code of its own, such as 2 for violations that
// verify has found.
func Run(root *cobra.Command, args []string) int {
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(errorOutput, "%s: %v\n", root.Name(), err)
	if coded := (interface{ ExitCode() int })(nil); errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}
