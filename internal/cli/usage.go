package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// usageColumns is the width of usages that no terminal shows.
const usageColumns = 80

// printUsage prints how a command is called: examples, its own commands, the flags to begin with,
// and all others.
func printUsage(cmd *cobra.Command, first []string) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, strings.TrimRight(text, "\n"))
		}
	}
	section("Examples", cmd.Example)
	section("Commands", commandsOf(cmd))
	begin, others := flagsOf(cmd, first)
	columns := columnsOf(cmd.OutOrStdout())
	if begin.HasFlags() {
		section("Flags to begin with", begin.FlagUsagesWrapped(columns))
		section("Other flags", others.FlagUsagesWrapped(columns))
	} else {
		section("Flags", others.FlagUsagesWrapped(columns))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells more of a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// commandsOf lists the commands of a command, each with a line on what it is for.
func commandsOf(cmd *cobra.Command) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// flagsOf divides the flags of a command into those of some names and all others.
func flagsOf(cmd *cobra.Command, first []string) (begin, others *pflag.FlagSet) {
	begin, others = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	begin.SortFlags = false
	for _, name := range first {
		if f := cmd.Flags().Lookup(name); f != nil {
			begin.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(first, f.Name) {
			others.AddFlag(f)
		}
	})
	return begin, others
}

// columnsOf is the width of the terminal that shows an output.
func columnsOf(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			return columns
		}
	}
	return usageColumns
}
