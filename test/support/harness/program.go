package harness

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/cli/lab"
	"github.com/millrace/millrace/internal/cli/server"
	"github.com/millrace/millrace/internal/cli/tools"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// testVersion is what commands print as Millrace's version.
const testVersion = "test"

// runProgram runs the command line, and returns the exit code. The program is the one that has
// the command: millrace-tools, millrace-lab, or else millrace. A link's name may be the command.
// The servers that millrace-lab starts are this binary, too.
func runProgram() int {
	args := server.Arguments(os.Args)
	for _, root := range []*cobra.Command{tools.NewCommand(testVersion), lab.NewCommand(testVersion)} {
		if len(args) > 0 && slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] && c.Name() != "version" }) {
			if err := os.Setenv(testbed.ServerVariable, os.Args[0]); err != nil {
				panic(err)
			}
			return cli.Run(root, args)
		}
	}
	return cli.Run(server.NewCommand(testVersion), args)
}
