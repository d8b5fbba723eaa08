package server

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/replica"
)

func newReplicaCommand(shared *program.Options) *cobra.Command {
	options := replica.NewOptions(shared)
	cmd := &cobra.Command{
		Use:   "replica",
		Short: "Answer the reads of an API server that exists, and pass everything else on to it",
		Long: `Answer the reads of an API server that exists, and pass everything else on to it.

A replica stands in front of an API server, the upstream. It answers GET, LIST and
WATCH out of memory, with the upstream's bytes and resource versions, for users that
the upstream knows and allows to read. All other requests go to the upstream. At a
terminal, the log goes to a file in --data-dir or --cert-dir, unless -v is given.

With --etcd-servers it follows the upstream's etcd, which it only reads. Without, it
follows each resource by one watch of the upstream's API, from its first read on.`,
		Example: `  millrace replica --kubeconfig=$HOME/.kube/config --write-kubeconfig=replica.kubeconfig
  millrace replica --kubeconfig=admin.conf --etcd-servers=https://10.0.0.2:2379 --etcd-cafile=ca.crt ...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := replica.New(options, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			relaxTimers(options.TimerSlack, program.NewLogger())
			// relaxTimers may have restarted the process, so the log is moved only now.
			dir, err := cmd.Flags().GetString("cert-dir")
			if err != nil {
				return err
			}
			if options.LogFile, err = logToFile(cmd, cmp.Or(options.CheckpointDir, dir)); err != nil {
				return err
			}
			err = r.Run(genericapiserver.SetupSignalContext())
			if errors.Is(err, replica.ErrRestart) {
				return restartProcess(err)
			}
			return err
		},
	}
	sections := options.AddFlags(cmd.Flags())
	width, _, _ := term.TerminalSize(cmd.OutOrStdout())
	flag.SetUsageAndHelpFunc(cmd, sections, width)
	return cmd
}
