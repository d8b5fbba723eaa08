// Package tools is the command line of millrace-tools: commands for an audit log or for an API
// server of any origin. The program is small: package lint (internal/build/lint) says what it must
// not link.
package tools

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/tool/analyze"
	"github.com/millrace/millrace/internal/tool/model"
	"github.com/millrace/millrace/internal/tool/replay"
	"github.com/millrace/millrace/internal/tool/top"
	"github.com/millrace/millrace/internal/tool/verify"
)

const longHelp = `Tools for any Kubernetes API server, which need only its audit log or a kubeconfig.

  millrace-tools analyze audit.log   which client costs an API server what
  millrace-tools replay audit.log    the requests of a log, sent to any API server
  millrace-tools verify              whether an API server keeps what the API promises
  millrace-tools top                 reads and watch events of a millrace server, by client
  millrace-tools model               what a cluster of any size costs, and what breaks first`

// NewCommand returns the root command. version is Millrace's own.
func NewCommand(version string) *cobra.Command {
	root := cli.NewRoot(cli.Program{
		Name: "millrace-tools", Short: "Tools for any Kubernetes API server", Long: longHelp, Versions: "Millrace   " + version + "\n",
		First: map[string][]string{
			"analyze": {"profile", "report", "output"},
			"agent":   {"profile", "report", "output"},
			"replay":  {"kubeconfig", "impersonate", "report"},
			"verify":  {"kubeconfig", "duration", "report"},
			"top":     {"kubeconfig", "once", "output"},
			"model":   {"nodes", "pods-per-node", "report"},
		},
	})
	root.AddCommand(
		analyze.NewCommand(version),
		replay.NewCommand(version),
		verify.NewCommand(version),
		top.NewCommand(),
		model.NewCommand(),
	)
	return root
}
