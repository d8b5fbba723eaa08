package analyze

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/render"
)

// newPricesCommand returns the command "analyze prices".
func newPricesCommand() *cobra.Command {
	var files price.Reports
	cmd := &cobra.Command{
		Use:   "prices LIST-REPORT",
		Short: "Make a price list from reports of millrace-lab bench",
		Long: `Make a price list from reports of millrace-lab bench, for --prices. Prices that the
reports lack are taken from the list in the binary.`,
		Example: `  millrace-lab bench list --compare --list-memory=0 -o json > list.json
  millrace-lab bench list --compare --list-memory=0 --read-paths=kubernetes --server-arg='--watch-cache-sizes=pods#0' \
    --workloads=pods-json,pods-of-node,pod-get -o json > etcd.json
  millrace-lab bench watch --compare -o json > watch.json
  millrace-lab bench list --compare --external-etcd --list-memory=0 --workloads=pod-get --concurrency=1000 --every=4s \
    --settle=10s --duration=30s -o json > paced.json
  millrace-tools analyze prices list.json --etcd=etcd.json --watch=watch.json --paced=paced.json > prices.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			defaults, err := price.Default()
			if err != nil {
				return err
			}
			files.List = args[0]
			l, err := price.Derive(files, defaults)
			if err != nil {
				return err
			}
			return render.WriteReport(cmd.OutOrStdout(), render.JSON, l, nil)
		},
	}
	cmd.Flags().StringVar(&files.Etcd, "etcd", "", "report of bench list on a stock server without a watch cache for pods")
	cmd.Flags().StringVar(&files.Watch, "watch", "", "report of bench watch")
	cmd.Flags().StringVar(&files.Paced, "paced", "", "report of bench list with --every, for the price of a request")
	return cmd
}
