package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// NewTreeCommand makes the command "bench tree". It starts servers.
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
at depth 2 at replicas of these, and so on: each server has --fanout replicas. First
of all, as many clients read at the root as it otherwise has replicas: all other
setups should cost the root no more than that.

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

// maxReplicas bounds the replicas of a tree, which run on one machine.
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
func (r *treeReport) maxDepth() (most int) {
	for _, res := range r.rows() {
		most = max(most, len(res.Tiers))
	}
	return most
}

// tierColumns returns columns with these titles for the root and for each depth.
func (r *treeReport) tierColumns(titles ...string) (columns []render.Column) {
	for depth := range r.maxDepth() + 1 {
		group := "root"
		if depth > 0 {
			group = fmt.Sprint("depth ", depth)
		}
		for _, title := range titles {
			columns = append(columns, render.Column{Group: group, Title: title})
		}
	}
	return columns
}

// tierCells returns the cells of the root and of each depth, and dashes for the depths that a result
// does not have. format returns the cells of one depth.
func (r *treeReport) tierCells(c *costs, format func(depth int, c *cost) []string) []string {
	cells := format(0, &c.Upstream)
	dashes := slices.Repeat([]string{"-"}, len(cells))
	for depth := range r.maxDepth() {
		if depth < len(c.Tiers) {
			cells = append(cells, format(depth+1, &c.Tiers[depth])...)
		} else {
			cells = append(cells, dashes...)
		}
	}
	return cells
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
	t := &render.Table{Columns: []render.Column{{Title: "depth"}, {Title: "replicas"}, {Title: "informers"}}}
	t.Columns = append(t.Columns, r.tierColumns("CPU s", "RSS", "sent")...)
	t.Columns = append(t.Columns, render.Column{Group: "event", Title: "p50 ms"}, render.Column{Group: "event", Title: "p99 ms"},
		render.Column{Title: "client CPU s"}, render.Column{Title: "writes/s"})
	for _, res := range r.rows() {
		row := []string{fmt.Sprint(len(res.Tiers)), fmt.Sprint(r.replicaCount(res)), fmt.Sprint(res.Informers)}
		row = append(row, r.tierCells(&res.costs, func(_ int, c *cost) []string {
			return []string{render.FormatNumber(c.CPUSeconds), render.FormatBytes(c.RSSBytes), render.FormatBytes(c.SentBytes)}
		})...)
		p50, p99 := "-", "-"
		if res.Informers > 0 {
			p50, p99 = render.FormatNumber(res.Millis.P50), render.FormatNumber(res.Millis.P99)
		}
		t.Add(append(row, p50, p99, render.FormatNumber(res.ClientCPUSeconds), render.FormatNumber(res.WritesPerSec))...)
	}
	return t
}

// openTable returns a table of the costs of opening all informers at once, less the costs of the
// writes meanwhile.
func (r *treeReport) openTable() render.TitledTable {
	t := render.TitledTable{
		Title: "Opening all informers at once, less what the writes meanwhile cost without readers",
		Table: render.Table{Columns: append([]render.Column{{Title: "depth"}, {Title: "informers"}, {Title: "s"}}, r.tierColumns("CPU s", "sent")...)},
	}
	t.Table.Columns = append(t.Table.Columns, render.Column{Title: "root's requests"})
	for _, res := range r.rows() {
		o, alone := res.Opening, r.withoutReaders(res.Setup)
		if o == nil || alone == nil {
			continue
		}
		row := append([]string{fmt.Sprint(len(res.Tiers)), fmt.Sprint(res.Informers), render.FormatNumber(o.Seconds)},
			r.tierCells(&o.costs, func(depth int, c *cost) []string {
				a := &alone.Upstream
				if depth > 0 {
					a = &alone.Tiers[depth-1]
				}
				sent := float64(c.SentBytes) - share(alone, float64(a.SentBytes), o.Writes)
				return []string{render.FormatNumber(max(0, c.CPUSeconds-share(alone, a.CPUSeconds, o.Writes))), render.FormatBytes(int64(max(0, sent)))}
			})...)
		t.Table.Add(append(row, fmt.Sprint(o.Requests))...)
	}
	return t
}

// rootTable returns a table that compares the root with a root at which as many clients read as it
// otherwise has replicas.
func (r *treeReport) rootTable() render.TitledTable {
	t := render.TitledTable{
		Title: fmt.Sprintf("Compared: the root's costs with %d clients that read there, and p99 with the same number of informers at the root", r.Fanout),
		Table: render.Table{Columns: render.ColumnsOf("depth", "informers", "root's CPU", "RSS", "watches", "sent", "p99")},
	}
	clients := r.find(depthSetup(0), r.Fanout*len(watchedResources()))
	if clients == nil {
		return t
	}
	for _, res := range r.rows() {
		if res.Informers == 0 {
			continue
		}
		ratio := func(figure func(*result) float64) string { return render.FormatRatio(figure(res), figure(clients)) }
		p99 := "-"
		if direct := r.find(depthSetup(0), res.Informers); direct != nil {
			p99 = render.FormatRatio(res.Millis.P99, direct.Millis.P99)
		}
		t.Table.Add(fmt.Sprint(len(res.Tiers)), fmt.Sprint(res.Informers),
			ratio(func(r *result) float64 { return r.Upstream.CPUSeconds / float64(r.Writes) }),
			ratio(func(r *result) float64 { return float64(r.Upstream.RSSBytes) }),
			ratio(func(r *result) float64 { return float64(r.Watches) }),
			ratio(func(r *result) float64 { return float64(r.Upstream.SentBytes) / float64(r.Writes) }), p99)
	}
	return t
}

// plot returns a plot of the root's CPU.
func (r *treeReport) plot() render.Plot {
	p := render.Plot{Title: "CPU of the root, ms for each second of writes", Linear: true, Format: render.FormatNumber}
	for depth := range r.maxDepth() + 1 {
		r.addUpstreamCPU(&p, fmt.Sprint("depth ", depth), depthSetup(depth))
	}
	return p
}

// footer returns lines about the servers, the load and the machine, and what failed.
func (r *treeReport) footer() []string {
	return append([]string{fmt.Sprintf("%d replicas of each server; at each depth, figures are the sum of all replicas there", r.Fanout)}, r.report.footer()...)
}
