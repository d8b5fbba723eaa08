// Package lab is the command line of millrace-lab: loads for API servers, and measurements of API
// servers. The servers that it starts are processes of the program millrace.
package lab

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/lab/bench"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/lab/papers"
)

const longHelp = `Loads for Kubernetes API servers, and measurements of them.

  millrace-lab fill     a synthetic cluster of any size, in any API server
  millrace-lab hollow   hollow nodes with the read load of their agents
  millrace-lab bench    what reads and custom resources cost any server
  millrace-lab papers   published experiments, beside their figures

bench and papers start servers with the program millrace, unless they are given a server
that runs. They look for it beside this program and on the PATH; --millrace names another.`

// NewCommand returns the root command. version is Millrace's own.
func NewCommand(version string) *cobra.Command {
	root := cli.NewRoot(cli.Program{
		Name: "millrace-lab", Short: "Loads for Kubernetes API servers, and measurements of them", Long: longHelp, Versions: "Millrace   " + version + "\n",
		First: map[string][]string{
			"fill":      {"kubeconfig", "pods", "nodes", "delete"},
			"hollow":    {"kubeconfig", "nodes", "agents", "delete"},
			"list":      {"compare", "workloads", "output"},
			"watch":     {"compare", "workloads", "output"},
			"crd":       {"compare", "crds", "output"},
			"discovery": {"compare", "crds", "output"},
			"replica":   {"kube-apiserver", "informers", "output"},
			"tree":      {"kube-apiserver", "informers", "output"},
			"servers":   {"kube-apiserver", "servers", "output"},
			"storm":     {"kube-apiserver", "nodes", "output"},
			"quiet":     {"write-rate", "pollers", "output"},
			"provision": {"kubeconfig", "nodes", "slo", "output"},
			"a":         {"kube-apiserver", "scale", "report"},
			"b":         {"kube-apiserver", "scale", "report"},
			"c":         {"kube-apiserver", "scale", "report"},
			"d":         {"kube-apiserver", "scale", "report"},
			"e":         {"kube-apiserver", "scale", "report"},
		},
	})
	root.AddCommand(
		fill.NewCommand(fill.Streams{Out: os.Stdout, Err: os.Stderr}),
		hollow.NewCommand(hollow.Streams{Out: os.Stdout, Err: os.Stderr}),
		bench.NewCommand(),
		papers.NewCommand(version),
	)
	return root
}
