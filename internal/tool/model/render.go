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
		"CPU": Derived, "memory": Derived, "sent": Derived, "replicas": Derived, "writes": Derived, "database": Derived,
		"watches": Derived, "events": Derived, "storm": Derived, "breaks": Derived, "limits": Assumed, "objects": Assumed, "p50": Simulated, "p99": Simulated,
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
	{"breaks", "Limits, and the number of nodes at which each is reached, with all else as it is", (*Report).breakTable},
	{"remedies", "Remedies", (*Report).remedyTable},
	{"lacks", "Limits that these sizes exceed, and how many times as much it would take", (*Report).lackTable},
	{"profiles", "What each profile reads", (*Report).profileTable},
	{"objects", "What the largest cluster has", (*Report).objectTable},
}

// Values of --tables that have an effect of their own: tableNeeds needs the simulation, and
// tableNotes is not a table.
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
	text := func(format string) string { return r.text(format, o.tables) }
	return render.WriteWithPlot(out, o.output, r, text, func() render.Plot { return r.plot(o.plot) })
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

// result is an Entry with its size.
type result struct {
	nodes float64
	*Entry
}

// results returns the results of all sizes.
func (r *Report) results() []result {
	var results []result
	for i := range r.Sizes {
		for j := range r.Sizes[i].Results {
			results = append(results, result{r.Sizes[i].Nodes, &r.Sizes[i].Results[j]})
		}
	}
	return results
}

// needTable returns a table of what each size needs in each setup.
func (r *Report) needTable() *render.Table {
	return needFields().Table(r.results())
}

// needFields returns the columns of needTable.
func needFields() render.Fields[result] {
	var fields render.Fields[result]
	add := fields.AddToGroup
	servers := func(title string, cell func(*ProcessUsage) string) {
		add("API servers", title, func(r result) string { return cell(&r.Usage.Servers) })
	}
	// replicas adds a column for the tiers of replicas: "-" if there are none.
	replicas := func(title string, cell func(tiers []ProcessUsage) string) {
		add("replicas", title, func(r result) string {
			if len(r.Usage.Tiers) == 0 {
				return "-"
			}
			return cell(r.Usage.Tiers)
		})
	}
	lastReplicas := func(title string, cell func(*ProcessUsage) string) {
		replicas(title, func(tiers []ProcessUsage) string { return cell(&tiers[len(tiers)-1]) })
	}
	event := func(title string, seconds func(*Events) float64) {
		add("event", title, func(r result) string {
			if r.Events == nil {
				return tooMuch
			}
			return display.Seconds(seconds(r.Events))
		})
	}
	add("", "nodes", func(r result) string { return formatWhole(r.nodes) })
	add("", "read at", func(r result) string { return r.Setup.Name })
	servers(mark("CPU", "CPU"), func(u *ProcessUsage) string { return formatNumber(u.CPU) })
	servers(mark("memory each", "memory"), func(u *ProcessUsage) string { return formatBytes(u.MemoryBytes) })
	servers(mark("memory after a storm", "memory"), func(u *ProcessUsage) string { return formatBytes(u.StormBytes) })
	servers(mark("sent/s each", "sent"), func(u *ProcessUsage) string { return formatBytes(u.sentPerProcess()) })
	replicas(mark("number", "replicas"), treeText)
	replicas(mark("CPU", "CPU"), func(tiers []ProcessUsage) string { return formatNumber(tiersCPU(tiers)) })
	lastReplicas(mark("memory each", "memory"), func(u *ProcessUsage) string { return formatBytes(u.StormBytes) })
	lastReplicas(mark("sent/s each", "sent"), func(u *ProcessUsage) string { return formatBytes(u.sentPerProcess()) })
	add("etcd", mark("writes/s", "writes"), func(r result) string { return formatWhole(r.Usage.Etcd.WritesPerSecond) })
	add("etcd", mark("CPU", "CPU"), func(r result) string { return formatNumber(r.Usage.Etcd.CPU) })
	add("etcd", mark("database", "database"), func(r result) string { return formatBytes(r.Usage.Etcd.DatabaseBytes) })
	event(mark("p50", "p50"), func(e *Events) float64 { return e.P50 })
	event(mark("p99", "p99"), func(e *Events) float64 { return e.P99 })
	add("", mark("storm", "storm"), func(r result) string { return display.Seconds(r.Usage.StormSeconds) })
	return fields
}

// tooMuch stands for a latency if the processors or networks cannot do the work.
const tooMuch = "no end"

// formatWhole returns a whole number with commas.
func formatWhole(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// setupLimit is a limit with its setup.
type setupLimit struct {
	setup string
	*Limit
}

// breakTable returns a table of all limits, by setup and number of nodes.
func (r *Report) breakTable() *render.Table {
	var limits []setupLimit
	for _, b := range r.Breaks {
		for i := range b.Limits {
			limits = append(limits, setupLimit{b.Setup.Name, &b.Limits[i]})
		}
	}
	var fields render.Fields[setupLimit]
	fields.Add("read at", func(l setupLimit) string { return l.setup })
	fields.Add(mark("nodes", "breaks"), func(l setupLimit) string { return formatWhole(l.Nodes) })
	fields.Add("limit", func(l setupLimit) string { return l.Name })
	fields.Add(mark("available", "limits"), func(l setupLimit) string { return l.AvailableText })
	return fields.Table(limits)
}

// remedyTable returns a table of what raises each limit.
func (r *Report) remedyTable() *render.Table {
	t := &render.Table{Columns: render.ColumnsOf("limit", "remedy")}
	shown := map[[2]string]bool{}
	for _, b := range r.Breaks {
		for i := range b.Limits {
			row := [2]string{b.Limits[i].Name, b.Limits[i].Remedy}
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
	var fields render.Fields[result]
	fields.Add("nodes", func(r result) string { return formatWhole(r.nodes) })
	fields.Add("read at", func(r result) string { return r.Setup.Name })
	fields.Add(mark("too little", "breaks"), func(r result) string {
		var lacks []string
		for i := range r.Exceeded {
			l := &r.Exceeded[i]
			lacks = append(lacks, fmt.Sprintf("%s (%sx)", l.Name, render.FormatNumber(l.Needed/l.Available)))
		}
		if lacks == nil {
			return "nothing"
		}
		return strings.Join(lacks, ", ")
	})
	return fields.Table(r.results())
}

// profileTable returns a table of the read load of each profile.
func (r *Report) profileTable() *render.Table {
	var fields render.Fields[ProfileLoad]
	fields.Add("profile", func(p ProfileLoad) string { return p.Profile })
	fields.Add("nodes", func(p ProfileLoad) string { return formatWhole(p.Nodes) })
	fields.Add(mark("watches", "watches"), func(p ProfileLoad) string { return display.Count(p.Watches) })
	fields.Add(mark("events/s", "events"), func(p ProfileLoad) string { return display.Count(p.EventsPerSecond) })
	fields.Add(mark("storm, sent per node", "storm"), func(p ProfileLoad) string { return formatBytes(p.StormBytes) })
	cpu := func(server string, value func(ProfileLoad) float64) {
		fields.AddToGroup("CPU at", mark(server, "CPU"), func(p ProfileLoad) string { return formatNumber(value(p)) })
	}
	cpu("kube-apiserver", func(p ProfileLoad) float64 { return p.KubernetesCPU })
	cpu("millrace serve", func(p ProfileLoad) float64 { return p.MillraceCPU })
	cpu("replicas", func(p ProfileLoad) float64 { return p.ReplicaCPU })
	return fields.Table(r.Profiles)
}

// objectTable returns a table of the resources of the largest cluster.
func (r *Report) objectTable() *render.Table {
	var fields render.Fields[ObjectCount]
	fields.Add("resource", func(o ObjectCount) string {
		if o.Counted {
			return o.Resource + " (counted)"
		}
		return o.Resource
	})
	fields.Add(mark("objects", "objects"), func(o ObjectCount) string { return display.Count(o.Objects) })
	fields.Add(mark("size of one", "objects"), func(o ObjectCount) string { return formatBytes(o.Bytes) })
	fields.Add(mark("changes/s", "objects"), func(o ObjectCount) string { return formatWhole(o.Changes) })
	return fields.Table(r.Objects)
}

// breakSentence returns a sentence on the limit of a setup that is reached first, and on the next
// three.
func breakSentence(setup Setup, limits []Limit) string {
	if len(limits) == 0 {
		return fmt.Sprintf("%s: nothing breaks up to %s nodes.", setup.Name, formatWhole(maxNodes))
	}
	first := &limits[0]
	text := fmt.Sprintf("%s: the first limit is the %s, at about %s nodes (%s available). Remedy: %s.",
		setup.Name, first.Name, formatWhole(first.Nodes), first.AvailableText, first.Remedy)
	var later []string
	for i := 1; i < len(limits) && i < 4; i++ {
		later = append(later, fmt.Sprintf("%s at %s", limits[i].Name, formatWhole(limits[i].Nodes)))
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
		fmt.Sprintf("%g pods on a node, %s per pod; %g pods created per second for 1,000 nodes; leases every %s, status every %s; agents: %s",
			c.PodsPerNode, display.Size(c.PodBytes), c.Churn, c.LeaseInterval, c.StatusInterval, strings.Join(c.Agents, ", ")),
		fmt.Sprintf("%d API servers; each server and replica has %g processors, %s of memory and %s/s of network; "+
			"replicas by depth, from the servers on",
			c.Servers, c.Cores, display.Size(c.MemoryBytes), display.Size(c.networkBytes())),
		fmt.Sprintf("replicas are counted so that each uses at most %g of its processors, %g of its memory and %g of its network, "+
			"takes %g s for an event, and feeds up to %d replicas", sizedCPU, sizedMemory, sizedNetwork, sizedEvent, fanout),
		fmt.Sprintf("[d] derived: sums of prices, which millrace-tools model constants lists with their reports; [s] simulated, seed %d; "+
			"[a] assumed; %s: the processors or networks cannot do the work", s.report.Seed, tooMuch),
		fmt.Sprintf("a program has up to %.0f watches; %.0f fit on a connection", s.streams, s.wire.streams),
	}
	if len(s.unknown) > 0 {
		notes = append(notes, "numbers of these resources are guesses, a tenth of the numbers of pods: "+strings.Join(s.unknown, ", "))
	}
	return notes
}

// plot returns a plot of the API servers at all sizes. what is plotCPU or plotMemory.
func (r *Report) plot(what string) render.Plot {
	p := render.Plot{Title: "CPU of all API servers, processors", Format: formatNumber}
	value := func(e *Entry) float64 { return e.Usage.Servers.CPU }
	if what == plotMemory {
		p.Title, p.Format = "Memory of one API server after a storm", formatBytes
		value = func(e *Entry) float64 { return e.Usage.Servers.StormBytes }
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
