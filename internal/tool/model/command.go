package model

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Say what a cluster costs its API servers, replicas and etcd, at any number of nodes:
CPU, memory, bytes, latencies of watch events, and what breaks first. It compares
kube-apiserver, millrace serve, and a tree of replicas in front of either.

Nothing runs: figures are sums of prices that benchmarks have measured, and latencies
come from a simulation of the tree. What nodes read is in profiles, as for
millrace-lab hollow. Each figure says whether it is derived, simulated or assumed;
"millrace-tools model constants" lists the prices with their origins, and "millrace-tools model
check" compares the simulation with measurements.`

const examples = `  millrace-tools model
  millrace-tools model --nodes=5000 --agents=network,mesh --pods-per-node=60 --churn=5
  millrace-tools model --nodes=100000 --own-etcd=leases,events --tree=16,512
  millrace-tools model --nodes=20000 --agents=mine --profiles=agents --report=scale.html
  millrace-tools analyze profile > cluster.json; millrace-tools model --counts=cluster.json
  millrace-tools model --reports=docs/bench                  # prices of other measurements
  millrace-tools model check`

// options has the values of the flags of the command and its subcommands.
type options struct {
	Config
	reports, output, plot, html string
	tables                      []string
}

// NewCommand returns the command "model".
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "model", Short: "Say on paper what a cluster of any size costs, and what breaks first", Long: longHelp, Example: examples,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"pods-per-node", "pod-size", "node-size", "crds"} {
				if o.Cluster.Counts != "" && cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s and --counts: give one of them, because the file has that number", name)
				}
			}
			return o.run(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Sizes, "nodes", []int{5000, 10_000, 100_000, 1_000_000}, "numbers of nodes")
	o.Cluster.addFlags(f)
	f.Uint64Var(&o.Seed, "seed", 1, "decides all random times of the simulation")
	f.StringVarP(&o.output, "output", "o", render.Terminal, "one of "+strings.Join(formats, ", "))
	f.StringVar(&o.plot, "plot", plotCPU, "what -o svg shows of the API servers: cpu or memory")
	f.StringSliceVar(&o.tables, "tables", tableNames(), "what the formats table and markdown have in addition to what breaks first")
	f.StringVar(&o.html, "report", "", "also write a page of HTML to this file, which needs no network")
	cmd.PersistentFlags().StringVar(&o.reports, "reports", "",
		"directory with reports of millrace-lab bench to take prices from (default the prices in the binary, which are from docs/bench)")
	cmd.AddCommand(o.newConstantsCommand(), o.newCheckCommand())
	return cmd
}

var formats = []string{render.Terminal, render.Markdown, render.JSON, render.SVG}

// validate returns an error that says which value of a flag to change.
func (o *options) validate() error {
	if !slices.Contains(formats, o.output) {
		return fmt.Errorf("--output=%s: choose one of %s", o.output, strings.Join(formats, ", "))
	}
	if o.plot != plotCPU && o.plot != plotMemory {
		return fmt.Errorf("--plot=%s: choose %s or %s", o.plot, plotCPU, plotMemory)
	}
	if err := display.CheckFile(o.html); err != nil {
		return err
	}
	for _, name := range o.tables {
		if !slices.Contains(tableNames(), name) && name != "none" {
			return fmt.Errorf("--tables=%s: choose from %s, or none", name, strings.Join(tableNames(), ", "))
		}
	}
	if len(o.Sizes) == 0 {
		return fmt.Errorf("--nodes: give one number or more")
	}
	for _, n := range o.Sizes {
		if n < 1 || n > maxNodes {
			return fmt.Errorf("--nodes=%d: choose 1 to %d", n, maxNodes)
		}
	}
	return nil
}

// constants returns the constants from --reports, or the ones in the binary.
func (o *options) constants() (Constants, error) {
	if o.reports == "" {
		return DefaultConstants()
	}
	return Derive(o.reports)
}

// run computes and prints a report. It simulates latencies only if the output has them.
func (o *options) run(out io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	var err error
	if o.Constants, err = o.constants(); err != nil {
		return err
	}
	tables := o.output == render.Terminal || o.output == render.Markdown
	o.Latencies = o.html != "" || o.output == render.JSON || tables && slices.Contains(o.tables, tableNeeds)
	report, err := Run(o.Config)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := report.writeHTML(o.html); err != nil {
			return err
		}
	}
	return report.Write(out, o)
}

// newConstantsCommand returns the command "model constants".
func (o *options) newConstantsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "constants", Short: "List the prices of the model, and where each comes from", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			constants, err := o.constantsFor(output)
			if err != nil {
				return err
			}
			if output == render.JSON {
				return constants.write(cmd.OutOrStdout())
			}
			return render.WriteReport(cmd.OutOrStdout(), output, constants, constants.text)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", render.Terminal, "one of "+strings.Join(textFormats(), ", "))
	return cmd
}

func textFormats() []string { return []string{render.Terminal, render.Markdown, render.JSON} }

// constantsFor returns the constants for a command that prints them in one of textFormats, or an
// error for another format.
func (o *options) constantsFor(output string) (Constants, error) {
	if !slices.Contains(textFormats(), output) {
		return nil, fmt.Errorf("--output=%s: choose one of %s", output, strings.Join(textFormats(), ", "))
	}
	return o.constants()
}

// newCheckCommand returns the command "model check".
func (o *options) newCheckCommand() *cobra.Command {
	var output string
	var seed uint64
	cmd := &cobra.Command{
		Use: "check", Short: "Compare the model with reports of millrace-lab bench tree and bench servers",
		Long: `Simulates each row of tree.json with 1,000 informers or more, all processes on the
same processors, and compares it with what was measured; computes the LISTs of
servers.json, too.
Prices come from rows of up to 1,000 informers and from other reports: larger fleets
and all LISTs are the check.

The reports are those of --reports, or of docs/bench below the working directory.`,
		Example: "  millrace-tools model check --reports=docs/bench",
		Args:    cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			constants, err := o.constantsFor(output)
			if err != nil {
				return err
			}
			dir := o.reports
			if dir == "" {
				dir = "docs/bench"
			}
			all, err := Compare(dir, constants, seed)
			if err != nil {
				return err
			}
			return render.WriteReport(cmd.OutOrStdout(), output, all, func(format string) string { return comparisonText(format, all) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", render.Terminal, "one of "+strings.Join(textFormats(), ", "))
	cmd.Flags().Uint64Var(&seed, "seed", 1, "decides all random times of the simulation")
	return cmd
}
