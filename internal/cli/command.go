// Package cli is the command line of the one binary. It puts the commands together,
// and gives Kubernetes' own components the credentials of the data directory. main
// calls Main and exits with its result.
//
// The package is not for what a command does, which is in the packages it calls.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "time/tzdata" // cron schedules name time zones

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the version
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/lab/bench"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/lab/papers"
	"github.com/millrace/millrace/internal/serve"
	"github.com/millrace/millrace/internal/tool/analyze"
	"github.com/millrace/millrace/internal/tool/model"
	"github.com/millrace/millrace/internal/tool/replay"
	"github.com/millrace/millrace/internal/tool/top"
	"github.com/millrace/millrace/internal/tool/verify"
)

const longHelp = `Millrace is a Kubernetes API server for very large clusters.

  millrace serve                 a complete API server on an embedded etcd
  millrace replica               reads of an API server that exists, from memory
  millrace kubectl get ns        kubectl, with that server's kubeconfig
  millrace top                   whether watch events are in time, and what reads cost
  millrace analyze audit.log     which client costs an API server what
  millrace replay audit.log      the requests of a log, sent to any API server
  millrace verify                whether any API server keeps what the API promises
  millrace hollow                hollow nodes with the read load of their agents
  millrace fill                  a synthetic cluster of any size
  millrace model                 what a cluster of any size costs, and what breaks first
  millrace bench                 what reads and custom resources cost any server
  millrace papers                published experiments, beside their figures
  millrace controller-manager    Kubernetes' own, with that server's credentials
  millrace scheduler             Kubernetes' own, with that server's credentials

With --etcd-servers and kube-apiserver's flags, millrace serve takes the place of
kube-apiserver in an existing control plane.`

// NewCommand makes the root command. version is Millrace's own, not Kubernetes'.
func NewCommand(version string) *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "A Kubernetes API server for very large clusters",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	options := program.NewOptions()
	root.AddCommand(
		newServeCommand(options),
		newReplicaCommand(options),
		newKubectlCommand(),
		newComponentCommand("controller-manager", "Run Kubernetes' controller manager", kube.NewControllerManagerCommand, controllerManagerDefaults),
		newComponentCommand("scheduler", "Run Kubernetes' scheduler", kube.NewSchedulerCommand, schedulerDefaults),
		top.NewCommand(),
		analyze.NewCommand(version),
		hollow.NewCommand(hollow.Streams{Out: os.Stdout, Err: os.Stderr}),
		model.NewCommand(model.Streams{Out: os.Stdout, Err: os.Stderr}),
		fill.NewCommand(fill.Streams{Out: os.Stdout, Err: os.Stderr}),
		bench.NewCommand(bench.Config{}),
		papers.NewCommand(version),
		replay.NewCommand(version),
		verify.NewCommand(version, verify.Streams{Out: os.Stdout, Err: os.Stderr}),
		newVersionCommand(version),
	)
	return root
}

func newServeCommand(shared *program.Options) *cobra.Command {
	options := serve.NewOptions(shared)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the API server",
		Long: `Run the API server.

With no flag it starts an embedded etcd and makes all certificates, keys and
kubeconfigs in --data-dir. At a terminal, the log goes to a file there, unless
-v is given. With --etcd-servers it serves out of that etcd; any
number of servers may. All flags of kube-apiserver are accepted.`,
		Example: `  millrace serve
  millrace serve --secure-port=7443 --data-dir=/var/lib/millrace
  millrace serve --etcd-servers=https://10.0.0.2:2379 --etcd-cafile=ca.crt ...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			s, err := serve.New(options, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if options.ReadPath == string(serve.ReadPathMillrace) {
				relaxTimers(options.TimerSlack, program.NewLogger())
			}
			// What has an etcd already is run by something that keeps its log.
			if len(options.Kube.EtcdServers()) == 0 {
				if options.LogFile, err = logToFile(cmd, options.DataDir); err != nil {
					return err
				}
			}
			nameProgram("kube-apiserver")
			return s.Run(genericapiserver.SetupSignalContext())
		},
	}
	sections := options.AddFlags(cmd.Flags())
	width, _, _ := term.TerminalSize(cmd.OutOrStdout())
	flag.SetUsageAndHelpFunc(cmd, sections, width)
	return cmd
}

func newVersionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Millrace and of the Kubernetes in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Millrace   %s\nKubernetes %s\n", version, kube.Version())
			return err
		},
	}
}

// errorOutput is where errors of commands are printed.
var errorOutput io.Writer = os.Stderr

// kubernetesNames are the commands that a link to this program is, by the name of the link: that
// of a program of Kubernetes. Tools that start such programs then need no other flags.
var kubernetesNames = map[string]string{
	"kube-apiserver": "serve", "kubectl": "kubectl", "kube-controller-manager": "controller-manager", "kube-scheduler": "scheduler",
}

// argumentsOf returns the arguments of a program with the command that its name stands for, or
// that --version alone does.
func argumentsOf(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	command, ok := kubernetesNames[strings.TrimSuffix(filepath.Base(args[0]), ".exe")]
	switch {
	case ok:
		return append([]string{command}, args[1:]...)
	case slices.Equal(args[1:], []string{"--version"}):
		return []string{"version"}
	}
	return args[1:]
}

// Main runs the command line of this process and returns its exit code: 1 for an error, 2 for a
// condition of analyze that is not met, or violations that verify has found, and 3 for an audit
// log that was read in part.
func Main(version string) int {
	root := NewCommand(version)
	root.SetArgs(argumentsOf(os.Args))
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(errorOutput, "millrace:", err)
	if own := (interface{ ExitCode() int })(nil); errors.As(err, &own) {
		return own.ExitCode()
	}
	return 1
}
