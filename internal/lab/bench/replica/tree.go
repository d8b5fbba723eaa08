package replica

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// NewTreeCommand returns the command "bench tree".
func NewTreeCommand() *cobra.Command {
	o := &options{}
	var depths []int
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "Measure a fleet of informers at replicas of replicas",
		Long: `Measures what informers cost the API server at the root of a tree of replicas, and
the replicas at each depth: CPU, memory and bytes; and the time from a write at the
root to its event at the client.

At depth 0 informers read at the root. At depth 1 they read at replicas of the root,
at depth 2 at replicas of replicas, and so on: each server has --fanout replicas. The
first setup has as many clients at the root as the root has replicas in the other
setups, which should cost the root no more.

The fleet is the one of bench replica: each client has one connection with an informer
of each of ten resources. An informer that receives an event twice or not at all is
an error. All processes share this machine, so give a rate that it can carry.`,
		Example: `  millrace-lab bench tree --kube-apiserver=bin/kube-apiserver
  millrace-lab bench tree --depths=0,2 --fanout=2 --informers=10000 --rate=5
  millrace-lab bench tree --from tree.json -o markdown`,
	}
	testbed.Subcommand{
		Validate: func() error {
			o.setups = nil
			for _, depth := range depths {
				o.setups = append(o.setups, depthSetup(depth))
			}
			return errors.Join(validateTree(depths, o.fanout), o.validate())
		},
		From: &o.from, Output: &o.output, NewReport: func() testbed.Report { return &treeReport{} },
		Measure: func(ctx context.Context, to testbed.Streams) error {
			r := &treeReport{Fanout: o.fanout}
			return execute(ctx, o, to, &r.report, r)
		},
	}.Bind(cmd)
	o.addCommonFlags(cmd.Flags(), []int{1000, 10_000}, 10)
	cmd.Flags().IntSliceVar(&depths, "depths", []int{0, 1, 2, 3}, "depths at which informers read")
	cmd.Flags().IntVar(&o.fanout, "fanout", 2, "replicas of each server")
	return cmd
}

// maxReplicas bounds the replicas at one depth of a tree, which run on one machine.
const maxReplicas = 64

// validateTree returns an error if a tree would have no replicas, or too many for one machine.
func validateTree(depths []int, fanout int) error {
	if fanout < 1 {
		return fmt.Errorf("--fanout=%d: must be at least 1", fanout)
	}
	for _, depth := range depths {
		leaves := 1
		for range depth {
			if leaves *= fanout; leaves > maxReplicas {
				break
			}
		}
		if depth < 0 || depth > maxReplicas || leaves > maxReplicas {
			return fmt.Errorf("--depths=%d with --fanout=%d: a tree has at most %d replicas at a depth", depth, fanout, maxReplicas)
		}
	}
	return nil
}

// treeReport is everything that "bench tree" has measured. "-o json" prints it.
type treeReport struct {
	report
	Fanout int `json:"fanout"`
}

// Write implements testbed.Report.
func (r *treeReport) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// text returns the report in a format of tables.
func (r *treeReport) text(format string) string {
	return render.Document(format, r.mainTable(), []render.TitledTable{r.openTable(), r.rootTable()}, r.footer())
}

// maxDepth returns the largest depth of all results.
func (r *treeReport) maxDepth() (depth int) {
	for _, res := range r.rows() {
		depth = max(depth, len(res.Tiers))
	}
	return depth
}

// addTiers adds columns of the root and of each depth. add adds the columns of one process to a
// group, and process finds the process, or returns nil if a result lacks the depth.
func (r *treeReport) addTiers(add func(group string, process func(*costs) *cost)) {
	add("root", func(c *costs) *cost { return &c.Upstream })
	for depth := range r.maxDepth() {
		add(fmt.Sprint("depth ", depth+1), func(c *costs) *cost {
			if depth >= len(c.Tiers) {
				return nil
			}
			return &c.Tiers[depth]
		})
	}
}

// replicaCount returns the number of replicas in the tree of a result.
func (r *treeReport) replicaCount(res *result) (n int) {
	tier := r.Fanout
	for range res.Tiers {
		n += tier
		tier *= r.Fanout
	}
	return n
}

// mainTable returns a table of the costs of the processes during the measured writes, by depth.
func (r *treeReport) mainTable() *render.Table {
	var fields render.Fields[*result]
	fields.Add("depth", func(res *result) string { return fmt.Sprint(len(res.Tiers)) })
	fields.Add("replicas", func(res *result) string { return fmt.Sprint(r.replicaCount(res)) })
	fields.Add("informers", func(res *result) string { return fmt.Sprint(res.Informers) })
	r.addTiers(func(group string, process func(*costs) *cost) {
		add := func(title string, format func(*cost) string) {
			fields.AddToGroup(group, title, func(res *result) string {
				c := process(&res.costs)
				if c == nil {
					return "-"
				}
				return format(c)
			})
		}
		add("CPU s", func(c *cost) string { return render.FormatNumber(c.CPUSeconds) })
		add("RSS", func(c *cost) string { return render.FormatBytes(c.RSSBytes) })
		add("sent", func(c *cost) string { return render.FormatBytes(c.SentBytes) })
	})
	fields.AddToGroup("event", "p50 ms", func(res *result) string { return res.unlessAlone(render.FormatNumber(res.Millis.P50)) })
	fields.AddToGroup("event", "p99 ms", func(res *result) string { return res.unlessAlone(render.FormatNumber(res.Millis.P99)) })
	fields.Add("client CPU s", func(res *result) string { return render.FormatNumber(res.ClientCPUSeconds) })
	fields.Add("writes/s", func(res *result) string { return render.FormatNumber(res.WritesPerSec) })
	return fields.Table(r.rows())
}

// openTable returns a table of the costs of opening all informers at once, less the costs of the
// writes meanwhile.
func (r *treeReport) openTable() render.TitledTable {
	var fields render.Fields[openRow]
	fields.Add("depth", func(o openRow) string { return fmt.Sprint(len(o.Tiers)) })
	fields.Add("informers", func(o openRow) string { return fmt.Sprint(o.Informers) })
	fields.Add("s", func(o openRow) string { return render.FormatNumber(o.Opening.Seconds) })
	r.addTiers(func(group string, process func(*costs) *cost) {
		fields.AddToGroup(group, "CPU s", func(o openRow) string { return o.netCPU(process) })
		fields.AddToGroup(group, "sent", func(o openRow) string { return o.netSent(process) })
	})
	fields.Add("root's requests", func(o openRow) string { return fmt.Sprint(o.Opening.Requests) })
	return render.TitledTable{Title: openTitle, Table: *fields.Table(r.openRows())}
}

// rootTable returns a table that compares the root with a root at which as many clients read as it
// has replicas in the other setups.
func (r *treeReport) rootTable() render.TitledTable {
	var rows []*result
	clients := r.find(depthSetup(0), r.Fanout*len(watchedResources()))
	for _, res := range r.rows() {
		if clients != nil && res.Informers > 0 {
			rows = append(rows, res)
		}
	}
	var fields render.Fields[*result]
	fields.Add("depth", func(res *result) string { return fmt.Sprint(len(res.Tiers)) })
	fields.Add("informers", func(res *result) string { return fmt.Sprint(res.Informers) })
	addUpstreamRatios(&fields, "root's CPU", clients)
	r.addP99Ratio(&fields, depthSetup(0))
	return render.TitledTable{
		Title: fmt.Sprintf("Compared: the root's costs with %d clients that read there, and p99 with the same number of "+
			"informers at the root", r.Fanout),
		Table: *fields.Table(rows),
	}
}

// plot returns a plot of the root's CPU.
func (r *treeReport) plot() render.Plot {
	p := render.Plot{Title: "CPU of the root, ms per second of writes", Linear: true, Format: render.FormatNumber}
	for depth := range r.maxDepth() + 1 {
		r.addUpstreamCPU(&p, fmt.Sprint("depth ", depth), depthSetup(depth))
	}
	return p
}

// footer returns lines about the servers, the load and the machine, and what failed.
func (r *treeReport) footer() []string {
	fanout := fmt.Sprintf("%d replicas of each server; at each depth, figures are the sum of all replicas there", r.Fanout)
	return append([]string{fanout}, r.report.footer()...)
}
