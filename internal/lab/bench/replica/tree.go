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

At depth 0 informers read at the root. At depth 1 they read at replicas of it, at
depth 2 at replicas of these, and so on: --fanout of them in front of each server. As
many clients as there are replicas in front of the root read there first: that is
what all others are to cost it.

The fleet is that of bench replica: each client has one connection with an informer
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
	cmd.Flags().IntVar(&o.fanout, "fanout", 2, "replicas in front of each server")
	return cmd
}

// maxReplicas bounds the replicas of a tree, which run on one machine.
const maxReplicas = 64

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

// Write prints the report in one of the formats of --output.
func (r *treeReport) Write(out io.Writer, format string) error {
	return render.WriteWithPlot(out, format, r, r.text, r.plot)
}

// text renders the report as "table", "wide" or "markdown".
func (r *treeReport) text(format string) string {
	return render.Document(format, r.mainTable(), []render.TitledTable{r.openTable(), r.rootTable()}, r.footer())
}

// depth is the largest of all results.
func (r *treeReport) depth() (most int) {
	for _, res := range r.rows() {
		most = max(most, len(res.Tiers))
	}
	return most
}

// tierColumns are so many columns for the root and each depth.
func (r *treeReport) tierColumns(titles ...string) (columns []render.Column) {
	for depth := range r.depth() + 1 {
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

// tierCells are what of returns for the root and each depth, and dashes for depths that a
// result does not have.
func (r *treeReport) tierCells(c *costs, of func(depth int, c *cost) []string) []string {
	cells := of(0, &c.Upstream)
	dashes := slices.Repeat([]string{"-"}, len(cells))
	for depth := range r.depth() {
		if depth < len(c.Tiers) {
			cells = append(cells, of(depth+1, &c.Tiers[depth])...)
		} else {
			cells = append(cells, dashes...)
		}
	}
	return cells
}

// replicas is how many there are in a tree.
func (r *treeReport) replicas(res *result) (n int) {
	at := r.Fanout
	for range res.Tiers {
		n += at
		at *= r.Fanout
	}
	return n
}

// mainTable has what the processes used while writes were made, by depth.
func (r *treeReport) mainTable() *render.Table {
	t := &render.Table{Columns: []render.Column{{Title: "depth"}, {Title: "replicas"}, {Title: "informers"}}}
	t.Columns = append(t.Columns, r.tierColumns("CPU s", "RSS", "sent")...)
	t.Columns = append(t.Columns, render.Column{Group: "event", Title: "p50 ms"}, render.Column{Group: "event", Title: "p99 ms"}, render.Column{Title: "client CPU s"}, render.Column{Title: "writes/s"})
	for _, res := range r.rows() {
		row := []string{fmt.Sprint(len(res.Tiers)), fmt.Sprint(r.replicas(res)), fmt.Sprint(res.Informers)}
		row = append(row, r.tierCells(&res.costs, func(_ int, c *cost) []string {
			return []string{render.FormatNumber(c.CPUSeconds), render.FormatBytes(c.RSSBytes), render.FormatBytes(c.SentBytes)}
		})...)
		p50, p99 := "-", "-"
		if res.Informers > 0 {
			p50, p99 = render.FormatNumber(res.Millis.P50), render.FormatNumber(res.Millis.P99)
		}
		t.Add(append(row, p50, p99, render.FormatNumber(res.ClientSeconds), render.FormatNumber(res.WritesPerSec))...)
	}
	return t
}

// openTable has what it took to open all informers at once, without the writes meanwhile.
func (r *treeReport) openTable() render.TitledTable {
	t := render.TitledTable{
		Title: "Opening all informers at once, without what the writes meanwhile cost with nobody reading",
		Table: render.Table{Columns: append([]render.Column{{Title: "depth"}, {Title: "informers"}, {Title: "s"}}, r.tierColumns("CPU s", "sent")...)},
	}
	t.Table.Columns = append(t.Table.Columns, render.Column{Title: "root's requests"})
	for _, res := range r.rows() {
		o, alone := res.Opening, r.alone(res.Setup)
		if o == nil || alone == nil {
			continue
		}
		row := append([]string{fmt.Sprint(len(res.Tiers)), fmt.Sprint(res.Informers), render.FormatNumber(o.Seconds)}, r.tierCells(&o.costs, func(depth int, c *cost) []string {
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

// rootTable compares the root with one at which as many clients read as replicas do.
func (r *treeReport) rootTable() render.TitledTable {
	t := render.TitledTable{
		Title: fmt.Sprintf("The root, compared with that of %d clients that read there, and p99 with that of as many informers at the root", r.Fanout),
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
		ratio := func(of func(*result) float64) string { return render.FormatRatio(of(res), of(clients)) }
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

// plot shows the root's CPU.
func (r *treeReport) plot() render.Plot {
	p := render.Plot{Title: "CPU of the root, ms for each second of writes", Linear: true, Format: render.FormatNumber}
	for depth := range r.depth() + 1 {
		r.addUpstreamCPU(&p, fmt.Sprint("depth ", depth), depthSetup(depth))
	}
	return p
}

// footer describes the servers, the load and the machine.
func (r *treeReport) footer() []string {
	return append([]string{fmt.Sprintf("%d replicas in front of each server; at each depth, figures are the sum of all replicas there", r.Fanout)}, r.report.footer()...)
}
