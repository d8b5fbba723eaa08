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
	t := &render.Table{Columns: []render.Column{
		{Title: "read at"}, {Title: "informers"},
		{Group: "upstream", Title: "CPU s"}, {Group: "upstream", Title: "RSS"}, {Group: "upstream", Title: "peak"},
		{Group: "upstream", Title: "watches"}, {Group: "upstream", Title: "sent"},
		{Group: "replica", Title: "CPU s"}, {Group: "replica", Title: "RSS"}, {Group: "replica", Title: "peak"},
		{Group: "etcd", Title: "CPU s"}, {Group: "event", Title: "p50 ms"}, {Group: "event", Title: "p99 ms"}, {Title: "writes/s"},
	}}
	for _, res := range r.rows() {
		row := []string{setupTitle(res.Setup), fmt.Sprint(res.Informers)}
		row = append(row, cells(&res.Upstream)...)
		watches, p50, p99 := "-", "-", "-"
		if res.Informers > 0 {
			watches, p50, p99 = fmt.Sprint(res.Watches), render.FormatNumber(res.Millis.P50), render.FormatNumber(res.Millis.P99)
		}
		row = append(row, watches, render.FormatBytes(res.Upstream.SentBytes))
		row = append(row, cells(res.tier())...)
		t.Add(append(row, render.FormatNumber(res.Etcd.CPUSeconds), p50, p99, render.FormatNumber(res.WritesPerSec))...)
	}
	return t
}

// cells returns the CPU and the memory of a process. c may be nil.
func cells(c *cost) []string {
	if c == nil {
		return []string{"-", "-", "-"}
	}
	return []string{render.FormatNumber(c.CPUSeconds), render.FormatBytes(c.RSSBytes), render.FormatBytes(c.PeakBytes)}
}

// openTable returns a table of the costs of opening all informers at once, less the costs of the
// writes meanwhile.
func (r *report) openTable() render.TitledTable {
	t := render.TitledTable{
		Title: "Opening all informers at once, less what the writes meanwhile cost without readers",
		Table: render.Table{Columns: []render.Column{
			{Title: "read at"}, {Title: "informers"}, {Title: "s"}, {Group: "upstream", Title: "CPU s"}, {Group: "upstream", Title: "sent"},
			{Group: "upstream", Title: "requests"}, {Group: "replica", Title: "CPU s"}, {Group: "replica", Title: "sent"},
			{Group: "replica", Title: "passed on"},
		}},
	}
	for _, res := range r.rows() {
		o, alone := res.Opening, r.withoutReaders(res.Setup)
		if o == nil || alone == nil {
			continue
		}
		net := func(process func(*costs) *cost) []string {
			c, a := process(&o.costs), process(&alone.costs)
			if c == nil || a == nil {
				return []string{"-", "-"}
			}
			cpu := c.CPUSeconds - share(alone, a.CPUSeconds, o.Writes)
			sent := float64(c.SentBytes) - share(alone, float64(a.SentBytes), o.Writes)
			return []string{render.FormatNumber(max(0, cpu)), render.FormatBytes(int64(max(0, sent)))}
		}
		row := []string{setupTitle(res.Setup), fmt.Sprint(res.Informers), render.FormatNumber(o.Seconds)}
		row = append(row, net(func(c *costs) *cost { return &c.Upstream })...)
		row = append(row, fmt.Sprint(o.Requests))
		row = append(row, net(func(c *costs) *cost { return c.tier() })...)
		passedOn := "-"
		if o.tier() != nil {
			passedOn = fmt.Sprint(o.PassedOn)
		}
		t.Table.Add(append(row, passedOn)...)
	}
	return t
}

// eventTable returns a table of the CPU for one event, of the process at which informers read.
func (r *report) eventTable() render.TitledTable {
	t := render.TitledTable{
		Title: "CPU for one event to one informer, of the process that sends it; net is less what the same writes cost it without readers",
		Table: render.Table{Columns: render.ColumnsOf("read at", "informers", "events", "µs", "net µs", "net, to serve's", "client µs")},
	}
	for _, res := range r.rows() {
		if res.Events == 0 {
			continue
		}
		all, net := r.eventMicros(res)
		ratio := "-"
		if serve := r.find(setupServe, res.Informers); serve != nil && serve != res {
			_, serveNet := r.eventMicros(serve)
			ratio = render.FormatRatio(net, serveNet)
		}
		t.Table.Add(setupTitle(res.Setup), fmt.Sprint(res.Informers), fmt.Sprint(res.Events), render.FormatNumber(all), render.FormatNumber(net), ratio,
			render.FormatNumber(res.ClientCPUSeconds/float64(res.Events)*1e6))
	}
	return t
}

// comparedTable returns a table that compares setups with informers which read directly. It compares
// the upstream's costs with oneInformerEach, and p99 with the same number of informers.
func (r *report) comparedTable() render.TitledTable {
	t := render.TitledTable{
		Title: "Compared: the upstream's costs with one informer of each resource at the upstream, and p99 with the same number of informers there",
		Table: render.Table{Columns: render.ColumnsOf("read at", "informers", "upstream's CPU", "RSS", "watches", "sent", "p99")},
	}
	one := r.oneInformerEach()
	if one == nil {
		return t
	}
	for _, res := range r.rows() {
		if res.Setup == setupServe || res.Events == 0 {
			continue
		}
		p99 := "-"
		if direct := r.find(setupDirect, res.Informers); direct != nil {
			p99 = render.FormatRatio(res.Millis.P99, direct.Millis.P99)
		}
		ratio := func(figure func(*result) float64) string { return render.FormatRatio(figure(res), figure(one)) }
		t.Table.Add(setupTitle(res.Setup), fmt.Sprint(res.Informers),
			ratio(func(r *result) float64 { return r.Upstream.CPUSeconds / float64(r.Writes) }),
			ratio(func(r *result) float64 { return float64(r.Upstream.RSSBytes) }),
			ratio(func(r *result) float64 { return float64(r.Watches) }),
			ratio(func(r *result) float64 { return float64(r.Upstream.SentBytes) / float64(r.Writes) }), p99)
	}
	return t
}

// plot returns a plot of the upstream's CPU.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "CPU of the upstream, ms for each second of writes", Linear: true, Format: render.FormatNumber}
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
	lines = append(lines, fmt.Sprintf("%d resources with %d objects each; %s writes/s in turn to all of them, for %s after %s to warm up",
		resources, r.Plan.Objects, render.FormatNumber(r.Plan.Rate), r.Plan.Duration, r.Plan.Warmup),
		fmt.Sprintf("each client has a connection and %d informers, JSON over HTTP/2 and TLS; an event's time begins before its write is sent", resources),
		r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	for i := range r.Results {
		res := &r.Results[i]
		if res.Resumed > 0 {
			lines = append(lines, fmt.Sprintf("%s with %d informers: %d watches were ended by the server and resumed", res.Setup, res.Informers, res.Resumed))
		}
		if res.Retries > 0 {
			lines = append(lines, fmt.Sprintf("%s with %d informers: %d watches were refused by a server that had not caught up, and retried", res.Setup, res.Informers, res.Retries))
		}
		if res.Error != "" {
			lines = append(lines, fmt.Sprintf("failed: %s with %d informers: %s", res.Setup, res.Informers, res.Error))
		}
	}
	return lines
}
