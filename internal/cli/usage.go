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

// usageColumns is the width of a usage that is not printed to a terminal, in characters.
const usageColumns = 80

// printUsage prints the usage of a command: examples, commands below it, the flags to begin with,
// and all other flags. first has the names of the flags to begin with.
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
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// commandsOf returns a line on each command below a command.
func commandsOf(cmd *cobra.Command) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// flagsOf divides the flags of a command: into the flags named in first, in that order, and all
// others.
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

// columnsOf returns the width of the terminal that shows an output, or usageColumns if no
// terminal shows it.
func columnsOf(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			return columns
		}
	}
	return usageColumns
}
