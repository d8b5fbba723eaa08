package verify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Check whether an API server keeps what the Kubernetes API promises to readers,
while clients read and write: order and completeness of watches, consistency of
reads, exact reads, pages, and that no acknowledged write is lost.

Any API server may be verified, and several at once that belong to one cluster:
its servers, or replicas in front of it. ~/.kube/config is not used unless it is
named, because the load includes writes. A run writes only in a namespace and a
definition of its own, and removes both in the end; --delete removes what a killed
run has left.

The report has a line for each promise. It shows each violation as a story of
operations with their revisions. If a server is a replica, the first line says how
many reads it answered itself. The exit code is 2 if there was a violation, and 1
if a replica answered no read or something else went wrong. An interrupt ends the
run early, and the report has what was recorded by then.`

const examples = `  millrace-tools verify --kubeconfig ~/.kube/config
  millrace-tools verify --kubeconfig admin.kubeconfig --server https://10.0.0.1:6443 --server https://10.0.0.2:6443
  millrace-tools verify --kubeconfig ~/.kube/config --kubeconfig replica.kubeconfig
  millrace-tools verify --kubeconfig ~/.kube/config --duration 5m --rate 500 -o json > report.json
  millrace-tools verify --kubeconfig ~/.kube/config --report report.html
  millrace-tools verify --kubeconfig ~/.kube/config --delete`

type options struct {
	Config
	kubeconfigs []string
	context     string
	addresses   []string
	output      string // the format
	page        string // name of the HTML report
	remove      bool
}

// NewCommand returns the command "verify". version is the version of Millrace.
func NewCommand(version string) *cobra.Command {
	o := options{Config: Config{Version: version}}
	cmd := &cobra.Command{
		Use: "verify", Short: "Check what an API server promises to readers", Long: longHelp, Example: examples,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.kubeconfigs, "kubeconfig", nil,
		"kubeconfig of an API server ("+kubeconfig.DeliberateDefaults+"); may be repeated for servers of one cluster")
	kubeconfig.AddContext(flags, &o.context)
	flags.StringArrayVar(&o.addresses, "server", nil,
		"verify this address with the kubeconfig's user and authority; may be repeated (default the kubeconfig's server)")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long to write, read and watch")
	flags.IntVar(&o.Writers, "writers", 4, "number of concurrent writers")
	flags.IntVar(&o.Readers, "readers", 4, "number of concurrent readers")
	flags.IntVar(&o.Watchers, "watchers", 16, "number of concurrent watchers")
	flags.Float64Var(&o.Rate, "rate", 60, "writes per second, of all writers together")
	flags.IntVar(&o.Keys, "names", 12, "number of names of objects; few names make many conflicts")
	flags.DurationVar(&o.Timeout, "request-timeout", defaultTimeout,
		"how long to wait for an answer; a write that takes longer has an unknown outcome")
	flags.Uint64Var(&o.Seed, "seed", 0, "decides what is requested (0: a random seed)")
	flags.StringVarP(&o.output, "output", "o", render.Terminal, "one of table, json")
	flags.BoolVar(&o.remove, "delete", false, "remove what all runs have left in the cluster, including runs that go on, and verify nothing")
	flags.StringVar(&o.page, "report", "", "write the report to this file, too, as an HTML page")
	return cmd
}

// run verifies the servers, or removes what runs have left, and prints the result.
func (o *options) run(cmd *cobra.Command) error {
	if o.output != render.Terminal && o.output != render.JSON {
		return fmt.Errorf("output is %q: give table or json", o.output)
	}
	cfg := o.Config
	if cfg.Seed == 0 {
		cfg.Seed = uint64(rand.Uint32())
	}
	var err error
	if cfg.Servers, err = o.servers(); err != nil {
		return err
	}
	cfg.Progress = cmd.ErrOrStderr()
	cfg.Target = o.target()
	if err := display.CheckFile(o.page); err != nil {
		return err
	}
	ctx, stop := interrupt.Context(cmd.Context())
	defer stop()
	if o.remove {
		n, err := Remove(ctx, cfg.Servers[0])
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed what %s had left\n", display.Plural(n, "run"))
		}
		return interrupt.Explain(ctx, err)
	}
	report, runErr := Run(ctx, cfg)
	if report == nil {
		return runErr
	}
	if o.page != "" {
		runErr = errors.Join(runErr, report.WritePage(o.page))
	}
	if o.output == render.JSON {
		err = render.WriteReport(cmd.OutOrStdout(), o.output, report, nil)
	} else {
		err = report.Write(cmd.OutOrStdout())
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if n := report.Violations(); n > 0 {
		return &ViolationsError{n, runErr}
	}
	return runErr
}

// ViolationsError says that a report has violations.
type ViolationsError struct {
	violations int
	other      error // a further error of the run, may be nil
}

// Error implements error.
func (e *ViolationsError) Error() string {
	if e.other != nil {
		return fmt.Sprintf("%d violations\n%v", e.violations, e.other)
	}
	return fmt.Sprintf("%d violations", e.violations)
}

// ExitCode returns the exit code of a command that ends with this error. Other errors have another
// exit code.
func (e *ViolationsError) ExitCode() int { return 2 }

// target returns the flags that name the servers, as the user gave them.
func (o *options) target() (text string) {
	for _, file := range o.kubeconfigs {
		text += " --kubeconfig " + display.ShellWord(file)
	}
	if o.context != "" {
		text += " --context " + display.ShellWord(o.context)
	}
	for _, address := range o.addresses {
		text += " --server " + display.ShellWord(address)
	}
	return text
}

// servers returns the client configurations for the kubeconfigs and addresses that the user gave.
// Several addresses need one kubeconfig.
func (o *options) servers() (all []*rest.Config, err error) {
	if len(o.kubeconfigs) > 1 && len(o.addresses) > 0 {
		return nil, errors.New("several kubeconfigs and --server are given: choose one of them")
	}
	files := o.kubeconfigs
	if len(files) == 0 {
		files = []string{""} // the default kubeconfig
	}
	addresses := o.addresses
	if len(addresses) == 0 {
		addresses = []string{""} // the address in the kubeconfig
	}
	for _, file := range files {
		for _, address := range addresses {
			named := kubeconfig.Flags{Kubeconfig: file, Context: o.context, Server: address, Deliberate: true}
			config, err := named.Load("verify")
			if err != nil {
				return nil, err
			}
			all = append(all, config)
		}
	}
	return all, nil
}
