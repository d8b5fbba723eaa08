package analyze

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Show from audit logs which client costs an API server what, and what would cost less.

It reads events of audit.k8s.io: files, compressed with gzip, zstd or not, directories
of rotated logs, or the standard input (-). The events may be of kube-apiserver or of
Millrace, plain or wrapped by the log service of a cloud, a container's log or a program
that ships logs: the wrapper is recognized. The level Metadata is enough; at
RequestResponse sizes come from the answers. The exit code is 3 if events could not be
read.

A log has no counts and sizes of objects: millrace-tools analyze profile measures a
cluster, and --profile takes the result. CPU comes from a price list that millrace-lab
bench has measured. Machines differ: millrace-tools analyze prices makes a list for yours.`

// NewCommand returns the command "analyze". version is Millrace's.
func NewCommand(version string) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "analyze LOG...",
		Short: "Show from audit logs which client costs an API server what, and what would cost less",
		Long:  longHelp,
		Example: `  millrace-tools analyze /var/log/kubernetes/audit
  millrace-tools analyze audit.log.gz --profile=cluster.json --report=report.html
  kubectl exec -n kube-system kube-apiserver-1 -- cat /var/log/audit.log | millrace-tools analyze -
  aws logs filter-log-events --log-group-name /aws/eks/NAME/cluster --log-stream-name-prefix kube-apiserver-audit | millrace-tools analyze -
  millrace-tools analyze audit.log --fail-on='list-cpu>0.5'
  millrace-tools top lists -o json | millrace-tools analyze --accounts=-`,
		Args: logArguments(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.execute(cmd, args, version, func(r *Report, width int) (string, error) { return r.text(f.output, f.top, width), nil })
		},
	}
	f.add(cmd.Flags())
	cmd.AddCommand(newAgentCommand(version), newProfileCommand(), newPricesCommand())
	return cmd
}

// logArguments returns a check of arguments: logs are required, unless --from or --accounts is set.
func logArguments(f *flags) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch other := f.from != "" || f.accounts != ""; {
		case len(args) == 0 && !other:
			return errors.New("name a log, a directory of logs, or - for the standard input")
		case len(args) > 0 && other:
			return errors.New("--from and --accounts read no log: leave out the logs, or the flag")
		}
		return nil
	}
}

// newAgentCommand returns the command "analyze agent". version is Millrace's.
func newAgentCommand(version string) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "agent NAME LOG...",
		Short: "Show what one start of an agent costs, request by request, and a start of its whole fleet",
		Long: `Show what one start of an agent costs, request by request, and a start of its whole
fleet: all that an instance sends in the two minutes from its first LIST in the log on.
NAME is a part of a user agent or of a user.`,
		Example: "  millrace-tools analyze agent cilium-agent audit.log --profile=cluster.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name an agent: a part of its user agent or user")
			}
			return logArguments(f)(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.execute(cmd, args[1:], version, func(r *Report, width int) (string, error) {
				if err := r.keepAgent(args[0]); err != nil {
					return "", err
				}
				return r.agentText(f.output, width), nil
			})
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// keepAgent removes from the report all clients whose names do not contain a text.
func (r *Report) keepAgent(name string) error {
	others := func(user, agent string) bool { return !strings.Contains(user, name) && !strings.Contains(agent, name) }
	found := slices.ContainsFunc(r.Clients, func(c ClientCost) bool { return !others(c.User, c.UserAgent) })
	r.Starts = slices.DeleteFunc(r.Starts, func(s Start) bool { return others(s.User, s.UserAgent) })
	r.Clients = slices.DeleteFunc(r.Clients, func(c ClientCost) bool { return others(c.User, c.UserAgent) })
	r.Shapes = slices.DeleteFunc(r.Shapes, func(s ShapeCost) bool { return others(s.User, s.UserAgent) })
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return others(f.User, f.UserAgent) })
	switch {
	case !found:
		return fmt.Errorf("no client has %q in its name: millrace-tools analyze lists the clients", display.Clean(name))
	case len(r.Starts) == 0:
		return fmt.Errorf("the log has no start of %q: no request reads a whole collection. "+
			"Give a log of the time in which the agent was started", display.Clean(name))
	}
	return nil
}

// execute makes or reads a report, prints it, and checks the conditions. text returns the tables of
// the report as text, for lines of up to width characters, and may remove a part of the report.
func (f *flags) execute(cmd *cobra.Command, paths []string, version string, text func(r *Report, width int) (string, error)) error {
	if err := f.validate(); err != nil {
		return err
	}
	ctx, stop := interrupt.Context(cmd.Context())
	defer stop()
	r, err := f.makeReport(ctx, cmd, paths, version)
	if err != nil {
		return err
	}
	// text comes first, also for JSON, because the text of an agent removes all other clients.
	width := 0
	if f.output == render.Terminal {
		width = display.Width(cmd.OutOrStdout())
	}
	tables, err := text(r, width)
	if err != nil {
		return err
	}
	if f.output != render.JSON { // first, because the last line tells what to repair
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", render.Wrap(r.Run.line(), "", width))
	}
	if err := render.WriteReport(cmd.OutOrStdout(), f.output, r, func(string) string { return tables }); err != nil {
		return err
	}
	if f.html != "" {
		if err := writeHTML(f.html, r); err != nil {
			return err
		}
	}
	if err := r.checkConditions(f.conditions); err != nil {
		return err
	}
	return auditlog.CheckLost(r.Run.Read.LostRecords)
}

// makeReport reads a saved report, or makes one from accounts or logs.
func (f *flags) makeReport(ctx context.Context, cmd *cobra.Command, paths []string, version string) (*Report, error) {
	if f.from != "" {
		r := &Report{}
		return r, render.ReadReport(f.from, r)
	}
	a := &analysis{
		options: &f.Options, stdin: cmd.InOrStdin(), started: time.Now(), progress: display.NewProgress(cmd.ErrOrStderr()),
	}
	var r *Report
	var err error
	if f.accounts != "" {
		r, err = f.readAccounts(cmd.InOrStdin())
	} else {
		r, err = a.run(ctx, paths)
	}
	if err != nil {
		return nil, err
	}
	r.Run.Millrace = version
	if r.Run.Arguments = slices.Clone(os.Args[min(1, len(os.Args)):]); f.HashNames {
		r.Run.Arguments = nil // the options are in the report, and paths have names
	}
	return r, nil
}

// line returns a line on how the report was made.
func (r *Run) line() string {
	if r.Read.Inputs == 0 {
		return fmt.Sprintf("Millrace %s, %s. -o json has all parameters.", r.Millrace, r.Machine.Go)
	}
	read := display.Size(r.Read.Bytes)
	if r.Elapsed > 0 {
		read += fmt.Sprintf(" in %s (%s/s)", display.Seconds(r.Elapsed), display.Size(float64(r.Read.Bytes)/r.Elapsed))
	}
	return fmt.Sprintf("Millrace %s, %d cores, %s: %s of %s, %s. Prices of %s. -o json has all parameters.",
		r.Millrace, r.Machine.Cores, r.Machine.Go, display.Plural(int(r.Read.Events), "event"), display.Plural(r.Read.Inputs, "input"),
		read, r.PricesOf.CPU)
}
