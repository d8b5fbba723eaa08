package model

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// origins returns the origin of each kind of figures. Tables mark figures by its first letter.
func origins() map[string]Origin {
	return map[string]Origin{
		"CPU": Derived, "memory": Derived, "sent": Derived, "replicas": Derived, "writes": Derived, "database": Derived, "watches": Derived,
		"events": Derived, "begin": Derived, "breaks": Derived, "limits": Assumed, "objects": Assumed, "p50": Simulated, "p99": Simulated,
	}
}

// mark returns the title of a column with the letter of the origin of its figures.
func mark(title, figures string) string {
	return fmt.Sprintf("%s [%s]", title, origins()[figures][:1])
}

// reportTables are the tables of a report, by their names in --tables. The table without a title is
// the first. The sentences on what breaks first are always printed, after the tables.
var reportTables = []struct {
	name, title string
	make        func(*Report) *render.Table
}{
	{tableNeeds, "", (*Report).needTable},
	{"breaks", "What breaks first, and at how many nodes, with all else as it is", (*Report).breakTable},
	{"helps", "What helps", (*Report).helpTable},
	{"lacks", "What there is too little of at these sizes, and how many times as much it would take", (*Report).lackTable},
	{"profiles", "What each profile reads", (*Report).profileTable},
	{"objects", "What the largest cluster has", (*Report).objectTable},
}

// Values of --tables that have an effect of their own: tableNeeds needs the simulation, and
// tableNotes is no table.
const (
	tableNeeds = "needs"
	tableNotes = "notes"
)

// tableNames returns the values of --tables, except for "none".
func tableNames() (names []string) {
	for _, t := range reportTables {
		names = append(names, t.name)
	}
	return append(names, tableNotes)
}

// Values of --plot.
const (
	plotCPU    = "cpu"
	plotMemory = "memory"
)

// Write prints the report in the format of --output, with the tables of --tables.
func (r *Report) Write(out io.Writer, o *options) error {
	return render.WriteWithPlot(out, o.output, r, func(format string) string { return r.text(format, o.tables) }, func() render.Plot { return r.plot(o.plot) })
}

// text returns the report as text with the named tables. The tables stand first, then sentences on
// what breaks first, then notes.
func (r *Report) text(format string, names []string) string {
	var first *render.Table
	var tables []render.TitledTable
	for _, t := range reportTables {
		switch {
		case !slices.Contains(names, t.name):
		case t.title == "":
			first = t.make(r)
		default:
			tables = append(tables, render.TitledTable{Title: t.title, Table: *t.make(r)})
		}
	}
	var notes []string
	for _, b := range r.Breaks {
		notes = append(notes, b.Sentence)
	}
	if slices.Contains(names, tableNotes) {
		notes = append(notes, r.Notes...)
	}
	return render.Document(format, first, tables, notes)
}

// needTable returns a table of what each size needs in each setup.
func (r *Report) needTable() *render.Table {
	t := &render.Table{Columns: []render.Column{
		{Title: "nodes"}, {Title: "read at"},
		{Group: "API servers", Title: mark("CPU", "CPU")}, {Group: "API servers", Title: mark("memory each", "memory")},
		{Group: "API servers", Title: mark("memory after a storm", "memory")}, {Group: "API servers", Title: mark("sent/s each", "sent")},
		{Group: "replicas", Title: mark("number", "replicas")}, {Group: "replicas", Title: mark("CPU", "CPU")},
		{Group: "replicas", Title: mark("memory each", "memory")}, {Group: "replicas", Title: mark("sent/s each", "sent")},
		{Group: "etcd", Title: mark("writes/s", "writes")}, {Group: "etcd", Title: mark("CPU", "CPU")}, {Group: "etcd", Title: mark("database", "database")},
		{Group: "event", Title: mark("p50", "p50")}, {Group: "event", Title: mark("p99", "p99")}, {Title: mark("storm", "begin")},
	}}
	for i := range r.Sizes {
		for j := range r.Sizes[i].Results {
			t.Add(needCells(r.Sizes[i].Nodes, &r.Sizes[i].Results[j])...)
		}
	}
	return t
}

// tooMuch stands for a latency if the processors or networks cannot do the work.
const tooMuch = "no end"

// needCells returns a row of needTable.
func needCells(nodes float64, e *Entry) []string {
	u := e.Usage
	servers := &u.Servers
	cells := []string{
		formatWhole(nodes), e.Setup.Name, formatNumber(servers.CPU), display.Size(servers.MemoryBytes), display.Size(servers.BegunBytes),
		display.Size(servers.SentBytes / float64(servers.Processes)),
	}
	if n := len(u.Tiers); n > 0 {
		last := &u.Tiers[n-1]
		cells = append(cells, treeText(u.Tiers), formatNumber(tiersCPU(u.Tiers)), display.Size(last.BegunBytes), display.Size(last.SentBytes/float64(last.Processes)))
	} else {
		cells = append(cells, "-", "-", "-", "-")
	}
	p50, p99 := tooMuch, tooMuch
	if e.Events != nil {
		p50, p99 = display.Seconds(e.Events.P50), display.Seconds(e.Events.P99)
	}
	return append(cells, formatWhole(u.Etcd.WritesPerSecond), formatNumber(u.Etcd.CPU), display.Size(u.Etcd.DatabaseBytes),
		p50, p99, display.Seconds(u.BeginSeconds))
}

// formatWhole returns a whole number with commas.
func formatWhole(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// breakTable returns a table of all limits, by setup and number of nodes.
func (r *Report) breakTable() *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("read at", mark("nodes", "breaks"), "what", mark("available", "limits"))}
	for _, b := range r.Breaks {
		for i := range b.Limits {
			l := &b.Limits[i]
			t.Add(b.Setup.Name, formatWhole(l.Nodes), l.What, l.There)
		}
	}
	return t
}

// helpTable returns a table of what raises each limit.
func (r *Report) helpTable() *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("what", "helps")}
	shown := map[[2]string]bool{}
	for _, b := range r.Breaks {
		for i := range b.Limits {
			row := [2]string{b.Limits[i].What, b.Limits[i].Helps}
			if !shown[row] {
				shown[row] = true
				t.Add(row[0], row[1])
			}
		}
	}
	return t
}

// lackTable returns a table of the limits that each size exceeds, and by what factor.
func (r *Report) lackTable() *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("nodes", "read at", mark("too little", "breaks"))}
	for i := range r.Sizes {
		for j := range r.Sizes[i].Results {
			e := &r.Sizes[i].Results[j]
			var all []string
			for k := range e.Exceeded {
				all = append(all, fmt.Sprintf("%s (%sx)", e.Exceeded[k].What, render.FormatNumber(e.Exceeded[k].Value/e.Exceeded[k].Most)))
			}
			if all == nil {
				all = []string{"nothing"}
			}
			t.Add(formatWhole(r.Sizes[i].Nodes), e.Setup.Name, strings.Join(all, ", "))
		}
	}
	return t
}

// profileTable returns a table of the read load of each profile.
func (r *Report) profileTable() *render.Table {
	t := &render.Table{Columns: []render.Column{
		{Title: "profile"}, {Title: "nodes"}, {Title: mark("watches", "watches")}, {Title: mark("events/s", "events")}, {Title: mark("storm, sent per node", "begin")},
		{Group: "CPU at", Title: mark("kube-apiserver", "CPU")}, {Group: "CPU at", Title: mark("millrace serve", "CPU")}, {Group: "CPU at", Title: mark("replicas", "CPU")},
	}}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		t.Add(p.Profile, formatWhole(p.Nodes), display.Count(p.Watches), display.Count(p.EventsPerSecond), display.Size(p.BeginBytes),
			formatNumber(p.KubernetesCPU), formatNumber(p.MillraceCPU), formatNumber(p.ReplicaCPU))
	}
	return t
}

// objectTable returns a table of the resources of the largest cluster.
func (r *Report) objectTable() *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("resource", mark("objects", "objects"), mark("size of one", "objects"), mark("changes/s", "objects"))}
	for i := range r.Objects {
		o := &r.Objects[i]
		name := o.Resource
		if o.Counted {
			name += " (counted)"
		}
		t.Add(name, display.Count(o.Objects), display.Size(o.Bytes), formatWhole(o.Changes))
	}
	return t
}

// breakSentence returns a sentence on the limit of a setup that is reached first, and on the next
// three.
func breakSentence(setup Setup, limits []Limit) string {
	if len(limits) == 0 {
		return fmt.Sprintf("%s: nothing breaks up to %s nodes.", setup.Name, formatWhole(maxNodes))
	}
	first := &limits[0]
	text := fmt.Sprintf("%s: the first limit is the %s, at about %s nodes (%s available). What helps: %s.",
		setup.Name, first.What, formatWhole(first.Nodes), first.There, first.Helps)
	var later []string
	for i := 1; i < len(limits) && i < 4; i++ {
		later = append(later, fmt.Sprintf("%s at %s", limits[i].What, formatWhole(limits[i].Nodes)))
	}
	if later != nil {
		text += " Next: " + strings.Join(later, ", ") + "."
	}
	return text
}

// notes returns sentences on what the figures rest on.
func (s *sweep) notes() []string {
	c := &s.report.Cluster
	notes := []string{
		fmt.Sprintf("%g pods on a node, %s a pod; %g pods made a second for 1,000 nodes; leases each %s, status each %s; agents: %s",
			c.PodsPerNode, display.Size(c.PodBytes), c.Churn, c.LeaseInterval, c.StatusInterval, strings.Join(c.Agents, ", ")),
		fmt.Sprintf("%d API servers; each server and replica has %g processors, %s of memory and %s/s of network; replicas by depth, from the servers on",
			c.Servers, c.Cores, display.Size(c.MemoryBytes), display.Size(c.networkBytes())),
		fmt.Sprintf("replicas are counted so that each uses at most %g of its processors, %g of its memory and %g of its network, "+
			"takes %g s for an event, and feeds up to %d others", sizedCPU, sizedMemory, sizedNetwork, sizedEvent, fanout),
		"[d] derived: sums of prices, which millrace-tools model constants lists with their reports; [s] simulated, seed " + fmt.Sprint(s.report.Seed) + "; [a] assumed; " + tooMuch + ": the processors or networks cannot do the work",
		fmt.Sprintf("a program has up to %.0f watches; %.0f fit on a connection", s.streams, s.wire.streams),
	}
	if len(s.unknown) > 0 {
		notes = append(notes, "numbers of these resources are guesses, a tenth of those of pods: "+strings.Join(s.unknown, ", "))
	}
	return notes
}

// plot returns a plot of the API servers at all sizes. what is plotCPU or plotMemory.
func (r *Report) plot(what string) render.Plot {
	p := render.Plot{Title: "CPU of all API servers, processors", Format: formatNumber}
	value := func(e *Entry) float64 { return e.Usage.Servers.CPU }
	if what == plotMemory {
		p.Title, p.Format = "Memory of one API server after all programs began at once", func(v float64) string { return display.Size(v) }
		value = func(e *Entry) float64 { return e.Usage.Servers.BegunBytes }
	}
	// A plot has three colours, so replicas of millrace serve are left out.
	for _, setup := range Setups()[:3] {
		p.Series = append(p.Series, render.Series{Name: setup.Name, Values: map[string]float64{}})
	}
	for i := range r.Sizes {
		group := formatWhole(r.Sizes[i].Nodes) + " nodes"
		p.Groups = append(p.Groups, group)
		for j := range p.Series {
			p.Series[j].Values[group] = value(&r.Sizes[i].Results[j])
		}
	}
	return p
}
