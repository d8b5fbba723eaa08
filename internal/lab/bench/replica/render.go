package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	return render.Document(format, r.mainTable(), []render.TitledTable{r.openTable(), r.eventTable(), r.comparedTable()}, r.footer())
}

// setupTitle returns where the informers of a setup read, in words.
func setupTitle(setup string) string {
	switch setup {
	case setupDirect:
		return "upstream"
	case setupReplicaAPI:
		return "replica, fed by the upstream"
	case setupReplicaEtcd:
		return "replica, fed by etcd"
	}
	return "millrace serve"
}

// rows returns the results without an error, sorted by the number of informers.
func (r *report) rows() []*result {
	var rows []*result
	for i := range r.Results {
		if r.Results[i].Error == "" {
			rows = append(rows, &r.Results[i])
		}
	}
	slices.SortStableFunc(rows, func(a, b *result) int { return a.Informers - b.Informers })
	return rows
}

// mainTable returns a table of the costs of the processes during the measured writes.
func (r *report) mainTable() *render.Table {
	var fields render.Fields[*result]
	fields.Add("read at", func(r *result) string { return setupTitle(r.Setup) })
	fields.Add("informers", func(r *result) string { return fmt.Sprint(r.Informers) })
	// process adds a column of a process. A setup may lack the process.
	process := func(group, title string, process func(*result) *cost, format func(*cost) string) {
		fields.AddToGroup(group, title, func(r *result) string {
			c := process(r)
			if c == nil {
				return "-"
			}
			return format(c)
		})
	}
	costs := func(group string, find func(*result) *cost) {
		process(group, "CPU s", find, func(c *cost) string { return render.FormatNumber(c.CPUSeconds) })
		process(group, "RSS", find, func(c *cost) string { return render.FormatBytes(c.RSSBytes) })
		process(group, "peak", find, func(c *cost) string { return render.FormatBytes(c.PeakBytes) })
	}
	costs("upstream", func(r *result) *cost { return &r.Upstream })
	fields.AddToGroup("upstream", "watches", func(r *result) string { return r.unlessAlone(fmt.Sprint(r.Watches)) })
	fields.AddToGroup("upstream", "sent", func(r *result) string { return render.FormatBytes(r.Upstream.SentBytes) })
	costs("replica", func(r *result) *cost { return r.tier() })
	fields.AddToGroup("etcd", "CPU s", func(r *result) string { return render.FormatNumber(r.Etcd.CPUSeconds) })
	fields.AddToGroup("event", "p50 ms", func(r *result) string { return r.unlessAlone(render.FormatNumber(r.Millis.P50)) })
	fields.AddToGroup("event", "p99 ms", func(r *result) string { return r.unlessAlone(render.FormatNumber(r.Millis.P99)) })
	fields.Add("writes/s", func(r *result) string { return render.FormatNumber(r.WritesPerSec) })
	return fields.Table(r.rows())
}

// unlessAlone returns a cell, or "-" for a result without informers.
func (r *result) unlessAlone(cell string) string {
	if r.Informers == 0 {
		return "-"
	}
	return cell
}

// openRow is a row of openTable: a result with the result of the same setup without readers.
type openRow struct {
	*result
	alone *result
}

// openRows returns the results of which openTable has rows.
func (r *report) openRows() []openRow {
	var rows []openRow
	for _, res := range r.rows() {
		if alone := r.withoutReaders(res.Setup); res.Opening != nil && alone != nil {
			rows = append(rows, openRow{res, alone})
		}
	}
	return rows
}

// netCPU returns the CPU seconds of a process during the opening, less the cost of the writes
// meanwhile. It returns "-" if the setup lacks the process.
func (o openRow) netCPU(process func(*costs) *cost) string {
	return o.net(process, func(c *cost) float64 { return c.CPUSeconds }, render.FormatNumber)
}

// netSent returns the bytes that a process sent during the opening, as netCPU.
func (o openRow) netSent(process func(*costs) *cost) string {
	return o.net(process, func(c *cost) float64 { return float64(c.SentBytes) }, render.FormatByteCount)
}

func (o openRow) net(process func(*costs) *cost, value func(*cost) float64, format func(float64) string) string {
	c, alone := process(&o.Opening.costs), process(&o.alone.costs)
	if c == nil || alone == nil {
		return "-"
	}
	return format(max(0, value(c)-costOfWrites(o.alone, value(alone), o.Opening.Writes)))
}

const openTitle = "Opening all informers at once, less what the writes meanwhile cost without readers"

// openTable returns a table of the costs of opening all informers at once, less the costs of the
// writes meanwhile.
func (r *report) openTable() render.TitledTable {
	upstream := func(c *costs) *cost { return &c.Upstream }
	replica := func(c *costs) *cost { return c.tier() }
	var fields render.Fields[openRow]
	fields.Add("read at", func(o openRow) string { return setupTitle(o.Setup) })
	fields.Add("informers", func(o openRow) string { return fmt.Sprint(o.Informers) })
	fields.Add("s", func(o openRow) string { return render.FormatNumber(o.Opening.Seconds) })
	fields.AddToGroup("upstream", "CPU s", func(o openRow) string { return o.netCPU(upstream) })
	fields.AddToGroup("upstream", "sent", func(o openRow) string { return o.netSent(upstream) })
	fields.AddToGroup("upstream", "requests", func(o openRow) string { return fmt.Sprint(o.Opening.Requests) })
	fields.AddToGroup("replica", "CPU s", func(o openRow) string { return o.netCPU(replica) })
	fields.AddToGroup("replica", "sent", func(o openRow) string { return o.netSent(replica) })
	fields.AddToGroup("replica", "passed on", func(o openRow) string {
		if o.Opening.tier() == nil {
			return "-"
		}
		return fmt.Sprint(o.Opening.PassedOn)
	})
	return render.TitledTable{Title: openTitle, Table: *fields.Table(r.openRows())}
}

// eventTable returns a table of the CPU for one event, of the process at which informers read.
func (r *report) eventTable() render.TitledTable {
	rows := slices.DeleteFunc(r.rows(), func(res *result) bool { return res.Events == 0 })
	gross := func(res *result) float64 {
		micros, _ := r.eventMicros(res)
		return micros
	}
	net := func(res *result) float64 {
		_, micros := r.eventMicros(res)
		return micros
	}
	var fields render.Fields[*result]
	fields.Add("read at", func(res *result) string { return setupTitle(res.Setup) })
	fields.Add("informers", func(res *result) string { return fmt.Sprint(res.Informers) })
	fields.Add("events", func(res *result) string { return fmt.Sprint(res.Events) })
	fields.Add("µs", func(res *result) string { return render.FormatNumber(gross(res)) })
	fields.Add("net µs", func(res *result) string { return render.FormatNumber(net(res)) })
	fields.Add("net, to serve's", func(res *result) string {
		serve := r.find(setupServe, res.Informers)
		if serve == nil || serve == res {
			return "-"
		}
		return render.FormatRatio(net(res), net(serve))
	})
	fields.Add("client µs", func(res *result) string { return render.FormatNumber(res.ClientCPUSeconds / float64(res.Events) * 1e6) })
	return render.TitledTable{
		Title: "CPU for one event to one informer, of the process that sends it; net is less what the same writes cost it without readers",
		Table: *fields.Table(rows),
	}
}

// comparedTable returns a table that compares setups with informers that read directly. It compares
// the upstream's costs with oneInformerEach, and p99 with the same number of informers.
func (r *report) comparedTable() render.TitledTable {
	var rows []*result
	one := r.oneInformerEach()
	for _, res := range r.rows() {
		if one != nil && res.Setup != setupServe && res.Events > 0 {
			rows = append(rows, res)
		}
	}
	var fields render.Fields[*result]
	fields.Add("read at", func(res *result) string { return setupTitle(res.Setup) })
	fields.Add("informers", func(res *result) string { return fmt.Sprint(res.Informers) })
	addUpstreamRatios(&fields, "upstream's CPU", one)
	r.addP99Ratio(&fields, setupDirect)
	return render.TitledTable{
		Title: "Compared: the upstream's costs with one informer of each resource at the upstream, and p99 with the same " +
			"number of informers there",
		Table: *fields.Table(rows),
	}
}

// addUpstreamRatios adds columns of the upstream's costs, divided by the costs of another result. CPU
// and sent bytes are per write.
func addUpstreamRatios(fields *render.Fields[*result], cpuTitle string, base *result) {
	ratio := func(title string, figure func(*result) float64) {
		fields.Add(title, func(res *result) string { return render.FormatRatio(figure(res), figure(base)) })
	}
	ratio(cpuTitle, func(r *result) float64 { return r.Upstream.CPUSeconds / float64(r.Writes) })
	ratio("RSS", func(r *result) float64 { return float64(r.Upstream.RSSBytes) })
	ratio("watches", func(r *result) float64 { return float64(r.Watches) })
	ratio("sent", func(r *result) float64 { return float64(r.Upstream.SentBytes) / float64(r.Writes) })
}

// addP99Ratio adds a column of the p99, divided by the p99 of a setup with as many informers.
func (r *report) addP99Ratio(fields *render.Fields[*result], setup string) {
	fields.Add("p99", func(res *result) string {
		base := r.find(setup, res.Informers)
		if base == nil {
			return "-"
		}
		return render.FormatRatio(res.Millis.P99, base.Millis.P99)
	})
}

// plot returns a plot of the upstream's CPU.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "CPU of the upstream, ms per second of writes", Linear: true, Format: render.FormatNumber}
	for _, setup := range []string{setupDirect, setupReplicaAPI, setupReplicaEtcd} {
		r.addUpstreamCPU(&p, setupTitle(setup), setup)
	}
	return p
}

// addUpstreamCPU adds the bars of a setup to a plot: the upstream's CPU by the number of informers.
func (r *report) addUpstreamCPU(p *render.Plot, name, setup string) {
	s := render.Series{Name: name, Values: map[string]float64{}}
	for _, res := range r.rows() {
		if res.Setup != setup || res.Informers == 0 {
			continue
		}
		group := fmt.Sprint(res.Informers, " informers")
		if !slices.Contains(p.Groups, group) {
			p.Groups = append(p.Groups, group)
		}
		s.Values[group] = res.Upstream.CPUSeconds * res.WritesPerSec / float64(res.Writes) * 1000
	}
	p.Series = append(p.Series, s)
}

// footer returns lines about the servers, the load and the machine, and what failed.
func (r *report) footer() []string {
	var lines []string
	if r.Upstream != "" {
		lines = append(lines, "upstream: "+r.Upstream+"; etcd runs in a process of its own")
	}
	resources := len(watchedResources())
	lines = append(lines, fmt.Sprintf("%d resources with %d objects each; %s writes/s to all resources round-robin, for %s "+
		"after %s to warm up",
		resources, r.Plan.Objects, render.FormatNumber(r.Plan.Rate), r.Plan.Duration, r.Plan.Warmup),
		fmt.Sprintf("each client has a connection and %d informers, JSON over HTTP/2 and TLS; an event's time starts before "+
			"its write is sent", resources),
		r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	for i := range r.Results {
		res := &r.Results[i]
		if res.Resumed > 0 {
			lines = append(lines, fmt.Sprintf("%s with %d informers: %d watches were ended by the server and resumed",
				res.Setup, res.Informers, res.Resumed))
		}
		if res.Retries > 0 {
			lines = append(lines, fmt.Sprintf("%s with %d informers: %d watches were refused by a server that had not caught up, and retried",
				res.Setup, res.Informers, res.Retries))
		}
		if res.Error != "" {
			lines = append(lines, fmt.Sprintf("failed: %s with %d informers: %s", res.Setup, res.Informers, res.Error))
		}
	}
	return lines
}
