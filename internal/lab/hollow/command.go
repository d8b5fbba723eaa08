package hollow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Run hollow nodes with their read load against any API server: kubelets that
register, keep leases, report their status, watch what kubelets watch and run
pods to Ready; kube-proxies; and agents by profile. No container runs.

--agents names profiles: network, exporter, logs, mesh, gitops, state-metrics, and
offenders for bad habits. --profiles adds files of your own, and
"millrace-lab hollow profile NAME" prints one to start from.

Every object that a run makes carries the label millrace.io/hollow=<name>.
--delete removes these objects and the pods on the run's nodes, also after a run
that was killed.`

const examples = `  # 1,000 nodes with two agents each and ten pods
  millrace-lab hollow --nodes=1000 --agents=network,exporter --pods=10

  # all at once, each program under its own user, for an audit log that looks real
  millrace-lab hollow --nodes=200 --agents=network --start=storm --impersonate

  # for ten minutes, with a report
  millrace-lab hollow --nodes=100 --duration=10m -o json > report.json

  # an agent of your own
  millrace-lab hollow profile exporter > agents/mine.yaml
  millrace-lab hollow --nodes=100 --profiles=agents --agents=mine

  # remove what runs have left
  millrace-lab hollow --delete`

// Streams has the outputs of the command: Out for the report, Err for the progress.
type Streams struct{ Out, Err io.Writer }

type options struct {
	Config
	server kubeconfig.Flags
	output string
}

// NewCommand returns the command "hollow".
func NewCommand(streams Streams) *cobra.Command {
	o := &options{server: kubeconfig.Flags{Deliberate: true}}
	cmd := &cobra.Command{
		Use: "hollow", Short: "Run hollow nodes with their read load against any API server", Long: longHelp, Example: examples,
		Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), streams)
		},
	}
	o.addFlags(cmd)
	cmd.AddCommand(newProfileCommand(streams.Out))
	return cmd
}

// addFlags adds the command's flags. They set the fields of o.
func (o *options) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.server.AddTo(f)
	o.server.AddServer(f)
	f.StringVarP(&o.output, "output", "o", "table", "one of table, markdown, json")
	f.IntVar(&o.Nodes, "nodes", 10, "number of nodes")
	f.StringSliceVar(&o.Agents, "agents", nil, "profiles of the agents to run besides kubelet and kube-proxy")
	f.StringVar(&o.Profiles, "profiles", "", "directory with profiles of your own")
	f.BoolVar(&o.KubeProxy, "kube-proxy", true, "run a kube-proxy on each node")
	f.IntVar(&o.Pods, "pods", 0, "number of pods to make for each node")
	f.StringVar(&o.Namespace, "namespace", "default", "namespace of these pods")
	f.DurationVar(&o.PodStart, "pod-start", time.Second, "time that containers take to start")
	f.DurationVar(&o.JobDuration, "job-duration", 30*time.Second, "time until containers complete, in pods that do not restart them always")
	f.StringVar(&o.Start, "start", StartPaced, "paced, or storm: all nodes at once")
	f.Float64Var(&o.StartRate, "start-rate", 20, "nodes to start in a second, if paced")
	f.DurationVar(&o.Duration, "duration", 0, "how long to run (0: until interrupted)")
	f.Uint64Var(&o.Seed, "seed", 1, "decides all random times")
	f.Float64Var(&o.ConnectionsPerNode, "connections-per-node", 0,
		"number of connections that the programs of a node share, such as 1 or 0.1 (0: a connection per program)")
	f.BoolVar(&o.Impersonate, "impersonate", false, "send each program's requests as its own user")
	f.StringVar(&o.Name, "name", "hollow", "name of the run, and prefix of the names of its nodes")
	f.BoolVar(&o.Delete, "delete", false, "remove what runs of this name have left, and run nothing")
}

// run runs hollow nodes and prints the report, or removes what earlier runs have left.
func (o *options) run(ctx context.Context, streams Streams) error {
	if !slices.Contains([]string{render.Terminal, render.Markdown, render.JSON}, o.output) {
		return fmt.Errorf("--output=%s: choose table, markdown or json", o.output)
	}
	cfg := o.Config
	var err error
	if cfg.REST, err = o.server.Load("hollow"); err != nil {
		return err
	}
	cfg.Progress = streams.Err
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	if o.Delete {
		return interrupt.Explain(ctx, Remove(ctx, cfg))
	}
	report, err := Run(ctx, cfg)
	if report == nil {
		return interrupt.Explain(ctx, err)
	}
	return errors.Join(err, render.WriteReport(streams.Out, o.output, report, report.text))
}

// newProfileCommand returns the command "hollow profile", which prints to out.
func newProfileCommand(out io.Writer) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "profile [NAME]", Short: "Print a profile of an agent, or the names of all",
		Args: cobra.MaximumNArgs(1), SilenceUsage: true,
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := agentprofile.Open(dir)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				text, err := set.Text(args[0])
				if err == nil {
					_, err = out.Write(text)
				}
				return err
			}
			for _, name := range append([]string{agentprofile.Kubelet, agentprofile.KubeProxy}, set.Names()...) {
				p, err := set.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "%-14s %s\n", name, p.Description)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "profiles", "", "directory with profiles of your own")
	return cmd
}
