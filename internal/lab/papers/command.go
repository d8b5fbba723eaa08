package papers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Repeats the experiments of publications about the read path of Kubernetes, each with one
command, and shows the published figures beside those of this machine: of the stock
read path, of a kube-apiserver (--kube-apiserver), and of Millrace.

Each experiment is one bench or several, with the paper's numbers. --scale multiplies
these numbers; with its default they fit a small machine, and the report names it. With
--kubeconfig the same requests go to an existing server. Data is filled in through it,
with a label, and removed at the end; --delete removes what an interrupted run has left.`

// NewCommand returns the command "papers". version is the version of this program.
func NewCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "papers",
		Short:         "Repeat published experiments, beside their figures",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), catalogue())
			return err
		},
	}
	for _, p := range allPapers() {
		cmd.AddCommand(newPaperCommand(p, version))
	}
	return cmd
}

// catalogue returns a line about each paper.
func catalogue() string {
	var b strings.Builder
	for _, p := range allPapers() {
		fmt.Fprintf(&b, "%s  %s (--scale=%g, about %s for each server)\n", p.Name, p.Title, p.Scale, p.Minutes)
	}
	return b.String()
}

// newPaperCommand returns the command of one paper. p is at the original's scale.
func newPaperCommand(p *Paper, version string) *cobra.Command {
	o := &options{paper: p}
	cmd := &cobra.Command{
		Use:   p.Name,
		Short: p.Title,
		Long: fmt.Sprintf("%s.\n\nPublished: %s\n\nDifferent here:\n  * %s\n\nWith --scale=%g it takes about %s for each server.",
			p.Title, p.Original, strings.Join(p.Differs, "\n  * "), p.Scale, p.Minutes),
		Example: fmt.Sprintf(`  millrace-lab papers %[1]s --kube-apiserver=bin/kube-apiserver -o json --report paper-%[1]s.html > paper-%[1]s.json
  millrace-lab papers %[1]s --kubeconfig ~/.kube/config --scale=0.1
  millrace-lab papers %[1]s --from paper-%[1]s.json -o markdown`, p.Name),
		SilenceUsage: true,
		Args:         cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		to := testbed.Streams{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
		if o.from != "" {
			return o.show(to)
		}
		ctx, stop := interrupt.Context(cmd.Context())
		defer stop()
		if o.remove {
			return o.removeData(ctx, to.Err)
		}
		return o.measure(ctx, version, to)
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// show prints a saved report.
func (o *options) show(to testbed.Streams) error {
	r := &Report{}
	if err := render.ReadReport(o.from, r); err != nil {
		return err
	}
	if r.Paper != o.paper.Name {
		return fmt.Errorf("--from=%s: this is not a report of paper %s", o.from, o.paper.Name)
	}
	return cmp.Or(o.write(r, to), r.failure())
}

// measure runs the steps and prints the report. After an interrupt it prints the steps so far.
func (o *options) measure(ctx context.Context, version string, to testbed.Streams) error {
	r, err := o.run(ctx, version, to.Err)
	if len(r.Steps) == 0 {
		return err
	}
	writeErr := o.write(r, to)
	return cmp.Or(err, writeErr, r.failure())
}

// write completes a report and prints it, and writes the page of --report.
func (o *options) write(r *Report, to testbed.Streams) error {
	if err := r.complete(); err != nil {
		return err
	}
	if o.page != "" {
		if err := r.writePage(o.page); err != nil {
			return err
		}
	}
	return r.Write(to.Out, o.output)
}
