// Package server is the command line of millrace: servers, replicas, and Kubernetes' own
// components with the credentials of the data directory.
package server

import (
	"fmt"
	"path/filepath"
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
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/serve"
)

const longHelp = `Millrace is a Kubernetes API server for very large clusters.

  millrace serve                 a complete API server on an embedded etcd
  millrace replica               reads of an API server that exists, from memory
  millrace kubectl get ns        kubectl, with that server's kubeconfig
  millrace controller-manager    Kubernetes' own, with that server's credentials
  millrace scheduler             Kubernetes' own, with that server's credentials

With --etcd-servers and kube-apiserver's flags, millrace serve takes the place of
kube-apiserver in an existing control plane. A link with the name of kube-apiserver,
kubectl, kube-controller-manager or kube-scheduler is that program.

millrace-tools tells what clients cost any API server, and whether it is right;
millrace-lab loads and measures it.`

// NewCommand makes the root command. version is Millrace's own, not Kubernetes'.
func NewCommand(version string) *cobra.Command {
	versions := fmt.Sprintf("Millrace   %s\nKubernetes %s\n", version, kube.Version())
	root := cli.NewRoot(cli.Program{Name: "millrace", Short: "A Kubernetes API server for very large clusters", Long: longHelp, Versions: versions})
	options := program.NewOptions()
	root.AddCommand(
		newServeCommand(options),
		newReplicaCommand(options),
		newKubectlCommand(),
		newComponentCommand("controller-manager", "Run Kubernetes' controller manager", kube.NewControllerManagerCommand, controllerManagerDefaults),
		newComponentCommand("scheduler", "Run Kubernetes' scheduler", kube.NewSchedulerCommand, schedulerDefaults),
		newEtcdCommand(),
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
			// With --etcd-servers, what runs the program also keeps its log.
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

// kubernetesNames maps names of Kubernetes' programs to commands. A link to this program with
// such a name runs the command, so tools that start the programs of Kubernetes need no other
// flags.
var kubernetesNames = map[string]string{
	"kube-apiserver": "serve", "kubectl": "kubectl", "kube-controller-manager": "controller-manager", "kube-scheduler": "scheduler",
}

// Arguments returns the arguments of a process without its name. If that name is one of
// Kubernetes' programs, the command that it stands for comes first.
func Arguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	command, ok := kubernetesNames[strings.TrimSuffix(filepath.Base(args[0]), ".exe")]
	if ok {
		return append([]string{command}, args[1:]...)
	}
	return args[1:]
}
